package dev.starling.samples;

import dev.starling.samples.train.Train;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/** The {@code starling} command. Each sample is one of its subcommands. */
@Command(
        name = "starling",
        description = "Deep learning on the JVM, in one process or several.",
        version = "Starling on JDK ${java.version}, ${os.name} ${os.arch}",
        mixinStandardHelpOptions = true,
        subcommands = {Train.class, Run.class, Coordinate.class, Doctor.class},
        footer = {"", "./starling bench compares this machine's speed with PyTorch's;",
            "./starling stream and ./starling spark train and score with Kafka and in",
            "Spark; ./starling study compares strategies: see their --help."})
public final class Main implements Runnable {
    @Spec
    private CommandSpec spec;

    private Main() {
    }

    /** Runs the command given by the arguments and ends the process with its exit code. */
    public static void main(String[] arguments) {
        System.exit(new CommandLine(new Main()).setCaseInsensitiveEnumValuesAllowed(true)
                .execute(arguments));
    }

    @Override
    public void run() {
        throw new ParameterException(spec.commandLine(), "Give a command: train, run, coordinator or doctor.");
    }
}
