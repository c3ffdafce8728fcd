package dev.starling.spark.command;

import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/** Trains, predicts and searches on Spark: on executor processes of this machine, or on another cluster. */
@Command(name = "starling spark", mixinStandardHelpOptions = true, subcommands = {TrainCommand.class,
        PredictCommand.class, SearchCommand.class}, description = "Train, predict and search on Apache Spark.")
public final class SparkCommand implements Runnable {
    @Spec
    private CommandSpec spec;

    private SparkCommand() {
    }

    /** Runs the command that the arguments name and ends the process with its exit code. */
    public static void main(String[] arguments) {
        System.exit(new CommandLine(new SparkCommand()).setExecutionExceptionHandler((e, line, _) -> {
            line.getErr().println("starling: " + e.getMessage());
            return 1;
        }).execute(arguments));
    }

    @Override
    public void run() {
        throw new ParameterException(spec.commandLine(), "Name a command: train, predict or search.");
    }
}
