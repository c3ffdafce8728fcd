package dev.starling.samples;

import dev.starling.distributed.Quorum;
import dev.starling.distributed.coordinator.Coordinator;
import dev.starling.distributed.coordinator.CoordinatorConfig;
import dev.starling.distributed.coordinator.CoordinatorThread;
import dev.starling.distributed.launch.LaunchedProcess;
import dev.starling.errors.StarlingException;
import dev.starling.samples.train.Clusters;
import dev.starling.transport.Protection;
import dev.starling.transport.TransportConfig;
import java.time.Duration;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/** Runs the coordinator of a group in a process of its own, so that the group does not end with any member. */
@Command(name = "coordinator", description = "Run the coordinator of a group as a process of its own. Start the "
        + "members with STARLING_COORDINATOR_RANK=none and the same secret in STARLING_SECRET_FILE. The coordinator "
        + "ends when all members have left.", mixinStandardHelpOptions = true)
public final class Coordinate implements Callable<Integer> {
    private static final Duration POLL_INTERVAL = Duration.ofMinutes(1);

    @Option(names = "--at", paramLabel = "ADDRESS", required = true,
            description = "Where members find it: host:port, or file:PATH, the file to which it writes its address.")
    private String address;

    @Option(names = "--world", paramLabel = "N", required = true,
            description = "Number of members, including servers, with which the group starts.")
    private int world;

    @Option(names = "--elastic", description = "Let the group continue without lost members, and with new ones.")
    private boolean elastic;

    @Option(names = {"--min-members", "--fewest"}, paramLabel = "N", defaultValue = "1",
            description = "Minimum number of members of an elastic group (default: ${DEFAULT-VALUE}).")
    private int minMembers;

    @Option(names = "--max-members", paramLabel = "N", description = "Maximum number of members of an elastic group; "
            + "further processes wait as spares (default: no limit).")
    private Integer maxMembers;

    @Option(names = "--quorum", paramLabel = "Q", defaultValue = "majority", description = "How many members of the "
            + "last epoch an elastic group needs to continue: majority, none or a number (default: ${DEFAULT-VALUE}).")
    private String quorum;

    @Option(names = "--transport", paramLabel = "T", defaultValue = TransportConfig.AUTOMATIC,
            description = "Transport of the members: aeron, tcp, ucx, or auto, which is aeron within a host and tcp "
                    + "between hosts (default: ${DEFAULT-VALUE}).")
    private String transport;

    @Option(names = "--protection", paramLabel = "P", description = "Of frames between hosts over aeron and tcp: "
            + "encrypted, authenticated or plain, the same in all processes (default: encrypted).")
    private Protection protection = Protection.ENCRYPTED;

    @Option(names = "--silence", paramLabel = "S", defaultValue = "10",
            description = "Seconds without a heartbeat until a member is lost (default: ${DEFAULT-VALUE}).")
    private int silenceSeconds;

    @Spec
    private CommandSpec spec;

    @Override
    public Integer call() {
        requirePositive("--world", world);
        requirePositive("--silence", silenceSeconds);
        try {
            TransportConfig config = TransportConfig.of(transport, LaunchedProcess.secret(System.getenv()))
                    .livenessTimeout(Duration.ofSeconds(silenceSeconds)).protection(protection);
            CoordinatorConfig rules = CoordinatorConfig.of(world, elastic ? Coordinator.OnLoss.REFORM
                    : Coordinator.OnLoss.END).minMembers(minMembers).quorum(Quorum.parse(quorum));
            try (CoordinatorThread coordinator = Clusters.open(address, config, maxMembers == null ? rules
                    : rules.maxMembers(maxMembers))) {
                spec.commandLine().getOut().println("coordinator of " + world + " members at "
                        + coordinator.address());
                spec.commandLine().getOut().flush();
                while (!coordinator.awaitDone(POLL_INTERVAL)) {
                    // The group lives until its members have left.
                    continue;
                }
                if (coordinator.failure() != null) {
                    spec.commandLine().getErr().println("starling: the coordinator has failed: "
                            + coordinator.failure());
                    return 1;
                }
            }
            return 0;
        } catch (IllegalArgumentException e) {
            throw new ParameterException(spec.commandLine(), e.getMessage(), e);
        } catch (StarlingException e) {
            spec.commandLine().getErr().println("starling: " + e.getMessage());
            return 1;
        }
    }

    private void requirePositive(String option, int value) {
        if (value < 1) {
            throw new ParameterException(spec.commandLine(), option + " must be positive, got " + value);
        }
    }
}
