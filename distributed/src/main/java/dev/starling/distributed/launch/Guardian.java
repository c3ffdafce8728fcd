package dev.starling.distributed.launch;

import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;

/**
 * A shell, one for each launch, that survives the launcher if that is killed. It reads the launch's process groups from
 * a pipe; if the pipe ends without a farewell, it terminates them all and removes the launch's directory.
 */
final class Guardian implements AutoCloseable {
    private static final String SCRIPT = """
            trap '' HUP INT TERM
            groups=' '
            while read -r verb group; do
                case $verb in
                    add) groups="$groups$group " ;;
                    remove) groups="${groups%% $group *} ${groups#* $group }" ;;
                    farewell) exit 0 ;;
                esac
            done
            signal() {
                alive=
                for group in $groups; do
                    if kill -s "$1" -- "$group" 2> /dev/null; then alive=1; fi
                done
            }
            signal TERM
            tenths=$2
            while signal 0; [ -n "$alive" ] && [ "$tenths" -gt 0 ]; do
                sleep 0.1
                tenths=$((tenths - 1))
            done
            signal KILL
            rm -rf -- "$1"
            """;

    private final Process shell;
    private final OutputStream pipe;

    private Guardian(Process shell) {
        this.shell = shell;
        pipe = shell.getOutputStream();
    }

    /**
     * Starts a guardian.
     *
     * @param session prefix that runs a command in a session of its own, so that signals to the launcher's group do not
     *     reach the guardian
     * @param directory to remove
     * @param grace between SIGTERM and SIGKILL
     */
    static Guardian start(List<String> session, Path directory, Duration grace) throws IOException {
        ProcessBuilder builder = new ProcessBuilder(new ArrayList<>(session));
        builder.command().addAll(List.of("/bin/sh", "-c", SCRIPT, "starling-guardian",
                directory.toAbsolutePath().toString(), Long.toString(grace.toMillis() / 100)));
        return new Guardian(builder.directory(Path.of("/").toFile())
                .redirectOutput(ProcessBuilder.Redirect.DISCARD).redirectError(ProcessBuilder.Redirect.DISCARD)
                .start());
    }

    /** Adds a target of {@code kill}: a process id, or a negated group id. */
    void add(long target) {
        write("add " + target);
    }

    void remove(long target) {
        write("remove " + target);
    }

    private void write(String line) {
        try {
            pipe.write((line + "\n").getBytes(StandardCharsets.US_ASCII));
            pipe.flush();
        } catch (IOException gone) {
            System.getLogger(Guardian.class.getName()).log(System.Logger.Level.WARNING,
                    "the launch's guardian (process " + shell.pid() + ") has died: " + gone.getMessage()
                            + "; if this process is killed, its children continue to run");
        }
    }

    /** Ends the guardian without any action: there is nothing left to watch over. */
    @Override
    public void close() {
        if (shell.isAlive()) {
            write("farewell");
        }
        try {
            pipe.close();
            if (!shell.waitFor(2, TimeUnit.SECONDS)) {
                shell.destroyForcibly().waitFor(2, TimeUnit.SECONDS);
            }
        } catch (IOException ended) {
            shell.destroyForcibly();
        } catch (InterruptedException e) {
            shell.destroyForcibly();
            Thread.currentThread().interrupt();
        }
    }
}
