package dev.starling.samples.train;

import dev.starling.errors.StarlingException;
import dev.starling.distributed.launch.LaunchException;
import dev.starling.distributed.launch.LaunchedProcess;
import dev.starling.samples.data.DataDirectory;
import java.io.PrintWriter;
import java.io.UncheckedIOException;
import java.nio.file.Path;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/** Trains a sample's network. */
@Command(name = "train", description = "Train a network.", mixinStandardHelpOptions = true,
        subcommands = {Train.Digits.class, Train.OnMnist.class, Train.OnCifar10.class,
                Train.Dbn.class})
public final class Train implements Runnable {
    @Spec
    private CommandSpec spec;

    @Override
    public void run() {
        throw new ParameterException(spec.commandLine(), "Give a sample to train: digits, mnist, cifar10 or dbn.");
    }

    /** A command that trains a sample. */
    private abstract static class SampleCommand implements Callable<Integer> {
        @Mixin
        TrainOptions options;

        @Mixin
        private TeamOptions teamOptions;

        @Spec
        CommandSpec spec;

        /**
         * Trains, and returns the exit code.
         *
         * @param data folder of the sample's files, or {@code null}
         */
        int train(Sample sample, Path data) {
            if (options.badValue() != null) {
                throw new ParameterException(spec.commandLine(), options.badValue());
            }
            PrintWriter out = spec.commandLine().getOut();
            TrainingRun run = TrainingRun.of(sample, options);
            DataDirectory directory = DataDirectory.of(data, System.err);
            Team team = new Team(run, teamOptions, directory, out);
            try {
                LaunchedProcess process = LaunchedProcess.fromEnvironment().orElse(null);
                String problem = Team.problem(teamOptions, process);
                if (problem == null && process == null) {
                    problem = options.badFile();
                }
                if (problem != null) {
                    throw new ParameterException(spec.commandLine(), problem);
                }
                if (Team.isLocal(teamOptions) && teamOptions.workers() > 0) {
                    team.threads();
                } else if (process != null) {
                    team.member(process);
                } else if (teamOptions.isRequested()) {
                    return team.launch(spec.root().commandLine().getParseResult().originalArgs());
                } else {
                    run.run(directory, out);
                }
                return 0;
            } catch (LaunchException e) {
                spec.commandLine().getErr().println("starling: " + e.getMessage());
                return e.status();
            } catch (StarlingException | IllegalArgumentException | UncheckedIOException e) {
                spec.commandLine().getErr().println("starling: " + e.getMessage());
                return 1;
            }
        }
    }

    /** Trains on digits that the sample draws. */
    @Command(name = "digits", description = "Train on digits that this sample draws itself: no file needed.",
            mixinStandardHelpOptions = true)
    static final class Digits extends SampleCommand {
        @Override
        public Integer call() {
            return train(Sample.digits(), null);
        }
    }

    /** Trains on MNIST. */
    @Command(name = "mnist",
            description = "Train on handwritten digits (downloads 11 MB once, unless --data has them).",
            mixinStandardHelpOptions = true)
    static final class OnMnist extends SampleCommand {
        @Option(names = "--data", paramLabel = "DIR", description = "Folder of the official files.")
        private Path data;

        @Override
        public Integer call() {
            return train(Sample.mnist(), data);
        }
    }

    /** Trains on CIFAR-10. */
    @Command(name = "cifar10", description = "Train on photographs (downloads 170 MB once, unless --data has them).",
            mixinStandardHelpOptions = true)
    static final class OnCifar10 extends SampleCommand {
        @Option(names = "--data", paramLabel = "DIR", description = "Folder of the official files.")
        private Path data;

        @Option(names = "--fast", negatable = true, description = "A residual network with larger batches; on a GPU "
                + "also --precision bf16 --captured (default on a GPU).")
        private Boolean fast;

        @Override
        public Integer call() {
            return train(Sample.cifar10(fast, options.isOnGpu()), data);
        }
    }

    /** Trains a deep belief network. */
    @Command(name = "dbn", description = "Train a deep belief network: restricted Boltzmann machines one after "
            + "another, then all of them as a classifier, for --epochs.", mixinStandardHelpOptions = true)
    static final class Dbn extends SampleCommand {
        @Mixin
        private DbnOptions network;

        @Override
        public Integer call() {
            String problem = network.problem(options);
            if (problem != null) {
                throw new ParameterException(spec.commandLine(), problem);
            }
            return train(network.sample(), network.data);
        }
    }
}
