package dev.starling.study;

import java.util.Locale;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/** The command {@code ./starling study}. */
@Command(name = "study", description = "Train one network by every strategy on this machine, and compare.",
        mixinStandardHelpOptions = true, subcommands = Cifar10Command.class)
public final class StudyCommand implements Runnable {
    @Spec
    private CommandSpec spec;

    private StudyCommand() {
    }

    /** Runs the command that the arguments name and ends the process with its exit code. */
    public static void main(String[] arguments) {
        Locale.setDefault(Locale.ROOT);
        System.exit(commandLine().execute(arguments));
    }

    static CommandLine commandLine() {
        return new CommandLine(new StudyCommand());
    }

    @Override
    public void run() {
        throw new ParameterException(spec.commandLine(), "Name what to train on: cifar10.");
    }
}
