package dev.starling.samples;

import dev.starling.distributed.coordinator.Coordinator;
import dev.starling.distributed.coordinator.CoordinatorConfig;
import dev.starling.distributed.launch.LaunchException;
import dev.starling.distributed.launch.Launcher;
import dev.starling.errors.StarlingException;
import dev.starling.samples.train.Clusters;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Parameters;
import picocli.CommandLine.Spec;

/** Runs any command as several processes that can find each other. */
@Command(name = "run", description = "Run a command as several processes. STARLING_RANK, STARLING_WORLD, "
        + "STARLING_COORDINATOR and STARLING_SECRET_FILE give each process its place in the group.",
        customSynopsis = "starling run --workers N [OPTIONS] -- COMMAND [ARGUMENT...]", mixinStandardHelpOptions = true)
public final class Run implements Callable<Integer> {
    @Option(names = "--workers", paramLabel = "N", required = true, description = "Number of worker processes.")
    private int workers;

    @Option(names = "--servers", paramLabel = "K", defaultValue = "0",
            description = "Number of further processes, servers, which end when the workers are done.")
    private int servers;

    @Option(names = "--restarts", paramLabel = "N", defaultValue = "0",
            description = "Total number of times that failed processes are restarted.")
    private int restarts;

    @Option(names = "--elastic", description = "Continue with fewer processes when some fail, down to one worker.")
    private boolean elastic;

    @Option(names = "--transport", paramLabel = "T", defaultValue = "aeron",
            description = "Transport to the coordinator: aeron, tcp or ucx (default: ${DEFAULT-VALUE}).")
    private String transport;

    @Option(names = "--grace", paramLabel = "S", defaultValue = "5",
            description = "Seconds from SIGTERM to SIGKILL (default: ${DEFAULT-VALUE}).")
    private int graceSeconds;

    @Parameters(paramLabel = "COMMAND", arity = "1..*", description = "The command to run, after --.")
    private List<String> command;

    @Spec
    private CommandSpec spec;

    @Override
    public Integer call() {
        if (workers < 1 || servers < 0 || restarts < 0 || graceSeconds < 0) {
            throw new ParameterException(spec.commandLine(),
                    "--workers must be at least 1; --servers, --restarts and --grace at least 0");
        }
        Coordinator.OnLoss onLoss = elastic || restarts > 0 ? Coordinator.OnLoss.REFORM : Coordinator.OnLoss.END;
        try {
            return Launcher.of(command).processes(workers + servers).servers(servers).restarts(restarts)
                    .tolerate(elastic ? workers - 1 : 0).grace(Duration.ofSeconds(graceSeconds))
                    .coordinator(Clusters.coordinator(transport, CoordinatorConfig.of(workers + servers, onLoss),
                    Clusters.LIVENESS_TIMEOUT)).forwardSignals().run();
        } catch (LaunchException e) {
            spec.commandLine().getErr().println("starling: " + e.getMessage());
            return e.status();
        } catch (StarlingException e) {
            spec.commandLine().getErr().println("starling: " + e.getMessage());
            return 1;
        }
    }
}
