package dev.starling.samples.train;

import dev.starling.nn.checkpoint.CheckpointException;
import dev.starling.nn.data.DataException;
import dev.starling.samples.data.DataDirectory;
import dev.starling.tensor.TensorException;
import java.io.PrintWriter;
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
        subcommands = {Train.Digits.class, Train.OnMnist.class, Train.OnCifar10.class})
public final class Train implements Runnable {
    @Spec
    private CommandSpec spec;

    @Override
    public void run() {
        throw new ParameterException(spec.commandLine(), "Name what to train on: digits, mnist or cifar10.");
    }

    private static int run(Sample sample, TrainOptions options, Path data, CommandSpec spec) {
        PrintWriter out = spec.commandLine().getOut();
        try {
            TrainingRun.of(sample, options).run(DataDirectory.of(data, System.err), out);
            return 0;
        } catch (DataException | TensorException | CheckpointException e) {
            spec.commandLine().getErr().println("starling: " + e.getMessage());
            return 1;
        }
    }

    /** Trains on digits that it draws itself. */
    @Command(name = "digits", description = "Train on digits that this sample draws itself: no file needed.",
            mixinStandardHelpOptions = true)
    static final class Digits implements Callable<Integer> {
        @Mixin
        private TrainOptions options;

        @Spec
        private CommandSpec spec;

        @Override
        public Integer call() {
            return Train.run(Sample.digits(), options, null, spec);
        }
    }

    /** Trains on MNIST. */
    @Command(name = "mnist",
            description = "Train on handwritten digits (downloads 11 MB once, unless --data has them).",
            mixinStandardHelpOptions = true)
    static final class OnMnist implements Callable<Integer> {
        @Mixin
        private TrainOptions options;

        @Option(names = "--data", paramLabel = "DIR", description = "Folder of the official files.")
        private Path data;

        @Spec
        private CommandSpec spec;

        @Override
        public Integer call() {
            return Train.run(Sample.mnist(), options, data, spec);
        }
    }

    /** Trains on CIFAR-10. */
    @Command(name = "cifar10", description = "Train on photographs (downloads 170 MB once, unless --data has them).",
            mixinStandardHelpOptions = true)
    static final class OnCifar10 implements Callable<Integer> {
        @Mixin
        private TrainOptions options;

        @Option(names = "--data", paramLabel = "DIR", description = "Folder of the official files.")
        private Path data;

        @Spec
        private CommandSpec spec;

        @Override
        public Integer call() {
            return Train.run(Sample.cifar10(), options, data, spec);
        }
    }
}
