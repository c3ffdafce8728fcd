package dev.starling.distributed.soak;

import dev.starling.distributed.Group;
import dev.starling.distributed.GroupConfig;
import dev.starling.distributed.launch.LaunchedProcess;
import dev.starling.distributed.ps.ParameterServer;
import dev.starling.distributed.ps.config.ServerConfig;
import dev.starling.tensor.Threads;
import dev.starling.transport.TransportConfig;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.stream.Stream;

/** A member of a long run in a process of its own: prints its resources, and the threads that are left at the end. */
final class LongRunProgram {
    private static final Duration TIMEOUT = Duration.ofSeconds(60);

    private LongRunProgram() { }

    /**
     * Trains, or serves.
     *
     * @param arguments the strategy; the transport; the number of steps; a directory that all members share
     */
    public static void main(String[] arguments) {
        Threads.set(1);
        LaunchedProcess me = LaunchedProcess.fromEnvironment().orElseThrow();
        Path meeting = Path.of(arguments[3]);
        TransportConfig transport = TransportConfig.of(arguments[1], me.secret()).directory(me.directory())
                .livenessTimeout(Duration.ofSeconds(20));
        List<ResourceUsage> usage = List.of();
        int servers = arguments[0].startsWith("ps") ? 1 : 0;
        try (Group group = Group.join(GroupConfig.of(transport, me.coordinator()).place(me.rank(), me.world() - servers)
                .joinTimeout(TIMEOUT).timeout(TIMEOUT))) {
            if (group.rank() == group.world() - servers) {
                ParameterServer.serve(group, ServerConfig.in(meeting.resolveSibling("servers")));
            } else {
                usage = LongRun.measure(group, arguments[0], Long.parseLong(arguments[2]),
                        () -> arrive(meeting, me.rank()), () -> haveArrived(meeting, me.world() - servers));
            }
        }
        usage.forEach(each -> System.out.println("held " + each.toText()));
        Thread.getAllStackTraces().keySet().stream().map(Thread::getName)
                .filter(name -> name.matches("(starling|aeron).*")).forEach(name -> System.out.println("left " + name));
    }

    private static void arrive(Path meeting, int rank) {
        try {
            Files.createFile(meeting.resolve("rank" + rank));
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private static boolean haveArrived(Path meeting, int world) {
        try (Stream<Path> all = Files.list(meeting)) {
            return all.count() == world;
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
