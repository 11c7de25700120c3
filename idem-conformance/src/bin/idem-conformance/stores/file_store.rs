//! A folder of files as a store: three methods, and everything that was acknowledged outlives the process.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use idem_core::cas::Swap;
use idem_core::{AttemptId, CasStore, Error, ErrorKind, OperationId, Record, Result, codec};

/// One file a record, replaced by renaming, under one lock for all processes.
#[derive(Debug, Clone)]
pub(crate) struct FileStore {
    dir: PathBuf,
}

/// 16 random bytes a write: a version is never used twice, not even after a removal.
pub(crate) type Version = [u8; 16];

fn failed(error: io::Error) -> Error {
    Error::with_source(ErrorKind::Indeterminate, "the folder could not be read or written", error)
}

impl FileStore {
    pub(crate) fn open(dir: &Path) -> Result<Self> {
        fs::create_dir_all(dir).map_err(failed)?;
        Ok(Self { dir: dir.to_owned() })
    }

    /// The downstream key is a digest of the id: as long as a file name may be, and different for every id.
    fn name(id: &OperationId) -> String {
        id.downstream_key().to_string()
    }

    pub(crate) fn path(&self, id: &OperationId) -> PathBuf {
        self.dir.join(Self::name(id))
    }

    /// Held by one process at a time, until it is closed; the system closes it for a process that died.
    fn lock(&self) -> Result<File> {
        let options = OpenOptions::new().create(true).truncate(false).write(true).clone();
        let file = options.open(self.dir.join("lock")).map_err(failed)?;
        file.lock().map_err(failed)?;
        Ok(file)
    }

    /// `version | length of the id | id | record`.
    fn read(path: &Path) -> Result<Option<(Record, Version)>> {
        let bytes = match fs::read(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        let corrupt = || Error::corrupt("a file of the ledger is cut short");
        let (version, rest) = bytes.split_first_chunk::<16>().ok_or_else(corrupt)?;
        let (length, rest) = rest.split_first_chunk::<4>().ok_or_else(corrupt)?;
        let (id, record) = rest.split_at_checked(u32::from_le_bytes(*length) as usize).ok_or_else(corrupt)?;
        let id = OperationId::decode(std::str::from_utf8(id).map_err(|_| corrupt())?)?;
        Ok(Some((codec::decode(&id, record)?, *version)))
    }
}

#[async_trait]
impl CasStore for FileStore {
    type Version = Version;

    async fn load(&self, id: &OperationId) -> Result<Option<(Record, Version)>> {
        Self::read(&self.path(id))
    }

    async fn compare_and_swap(
        &self,
        id: &OperationId,
        expected: Option<&Version>,
        next: Option<&Record>,
    ) -> Result<Swap> {
        let _lock = self.lock()?;
        let path = self.path(id);
        let stored = Self::read(&path)?.map(|(_, version)| version);
        if stored.as_ref() != expected {
            return Ok(Swap::Lost);
        }
        let Some(record) = next else {
            fs::remove_file(&path).map_err(failed)?;
            return Ok(Swap::Applied);
        };
        let encoded = id.encode();
        let mut bytes = AttemptId::random().as_bytes().to_vec();
        bytes.extend(u32::try_from(encoded.len()).unwrap_or(u32::MAX).to_le_bytes());
        bytes.extend(encoded.as_bytes());
        bytes.extend(codec::encode(record));
        // A reader sees the old file or the new one, never a part.
        let new = path.with_extension("new");
        fs::write(&new, bytes).and_then(|()| fs::rename(&new, &path)).map_err(failed)?;
        Ok(Swap::Applied)
    }

    async fn scan(&self, after: Option<&OperationId>, limit: usize) -> Result<Vec<Record>> {
        let after = after.map(Self::name);
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.dir).map_err(failed)? {
            names.extend(entry.map_err(failed)?.file_name().into_string().ok());
        }
        names.retain(|name| name.len() == 64 && after.as_ref().is_none_or(|after| name > after));
        names.sort();
        let mut records = Vec::new();
        for name in names {
            if records.len() == limit {
                break;
            }
            // A file may have gone since the folder was read.
            records.extend(Self::read(&self.dir.join(name))?.map(|(record, _)| record));
        }
        Ok(records)
    }
}
