package dev.starling.samples;

import dev.starling.samples.train.Train;
import java.io.PrintWriter;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;
import picocli.CommandLine.UnmatchedArgumentException;

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
        System.exit(commandLine().execute(arguments));
    }

    static CommandLine commandLine() {
        return new CommandLine(new Main()).setCaseInsensitiveEnumValuesAllowed(true)
                .setParameterExceptionHandler((e, _) -> reportInvalid(e));
    }

    /** Prints the problem last or alone: a list of all options would move it out of a terminal. */
    private static int reportInvalid(ParameterException e) {
        CommandLine line = e.getCommandLine();
        PrintWriter err = line.getErr();
        boolean isRoot = line.getParent() == null;
        if (isRoot) {
            line.usage(err);
        }
        err.println(line.getColorScheme().errorText(e.getMessage()));
        if (!isRoot) {
            UnmatchedArgumentException.printSuggestions(e, err);
            err.println("./" + line.getCommandSpec().qualifiedName() + " --help lists the options.");
        }
        return line.getCommandSpec().exitCodeOnInvalidInput();
    }

    @Override
    public void run() {
        throw new ParameterException(spec.commandLine(), "Give a command: train, run, coordinator or doctor.");
    }
}
