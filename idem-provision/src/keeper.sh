# Keeps one server for as long as somebody uses it: keeper.sh FOLDER LINGER_S LAST_SIGNAL PROGRAM ARGUMENT...
#
# Users hold the named pipe open for writing. The system closes it for those that are killed too, so the end of the pipe
# is the end of the last user, however it ended. A pipe without a reader is a keeper that is gone.
# A shell, because it has to outlive the process that started it, and a library has no other program to count on.
set -u
folder=$1 linger=$2 last=$3
shift 3
cd "$folder" || exit 1
mkfifo -m 600 users || exit 1
exec 3< users
server=

# The shell in between is the server's parent. It notes how the server ended, so that no signal is sent to a number that
# may be somebody else's by now.
start() {
    rm -f pid exit
    (
        sh -c 'echo $$ > pid.new && mv pid.new pid && exec "$@"' sh "$@" >> log 2>&1
        echo $? > exit.new && mv exit.new exit
    ) 3<&- &
    server=$!
    while [ ! -e pid ] && [ ! -e exit ]; do sleep 0.01; done
}

signal() {
    [ -e exit ] || kill -s "$1" "$(cat pid)" 2> /dev/null
}

stop() {
    [ -n "$server" ] || return 0
    signal "$1"
    wait "$server"
    server=
}

obey() {
    order=$1 verb=$2 argument=$3
    shift 3
    case $verb in
        start) start "$@" ;;
        stop) stop "$argument" ;;
    esac
    echo "$order" > done.new && mv done.new done
}

idle=0
while :; do
    if read -r number verb argument <&3; then
        idle=0
        obey "$number" "$verb" "$argument" "$@"
    elif [ "$idle" -ge "$linger" ]; then
        break
    else
        idle=$((idle + 1))
        sleep 1
    fi
done
# Without this file nobody joins. Somebody who joined just before holds the pipe, and this waits for them too.
rm -f state
while read -r number verb argument <&3; do obey "$number" "$verb" "$argument" "$@"; done

if [ -n "$server" ]; then
    signal "$last"
    # Ten seconds to end in good order.
    tries=0
    while [ ! -e exit ] && [ "$tries" -lt 100 ]; do
        tries=$((tries + 1))
        sleep 0.1
    done
    stop KILL
fi
cd /
rm -rf "$folder"
