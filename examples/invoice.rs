//! The example of the README: one line around a handler. A test holds the two against each other.

use idem_core::ledger::Answer;
use idem_core::{Fingerprint, Ledger, OperationId};
use idem_sqlite::SqliteStore;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let ledger = Ledger::new(SqliteStore::open("ledger.db").await?);
    let order = serde_json::json!({ "customer": 7, "total_cents": 1250 });
    let op = OperationId::new("acme", "invoice.create/v1", "order-418-rev-2")?;

    let answer = ledger
        .run(&op, Fingerprint::json(&order)?, |attempt| async move {
            // Give the outside world attempt.downstream_key(), so that it can recognise a repetition too.
            let invoice = create_invoice(&attempt.downstream_key().to_string()).await?;
            Ok(invoice)
        })
        .await?;

    match answer {
        Answer::Executed(invoice) | Answer::Replayed(invoice) => println!("{invoice}"),
        Answer::Conflict => println!("this key was used for another order"),
        other => println!("{other}"), // every answer explains itself
    }
    Ok(())
}

async fn create_invoice(key: &str) -> Result<String, std::io::Error> {
    println!("creating the invoice for {key}");
    Ok("invoice 2026-001".to_owned())
}
