package dev.starling.spark.command;

import dev.starling.nn.model.ModelDescription;
import dev.starling.nn.model.ModelFactory;
import dev.starling.nn.train.EpochReport;
import dev.starling.nn.train.Metric;
import dev.starling.nn.train.ProgressBar;
import dev.starling.spark.Choices;
import dev.starling.spark.DeepBelief;
import dev.starling.spark.Perceptron;
import dev.starling.spark.SparkTrainer;
import dev.starling.spark.TrainedModel;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.Callable;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/** Trains a model on the partitions of a DataFrame. */
@Command(name = "train", mixinStandardHelpOptions = true,
        description = "Train a model in the executors that hold the partitions.")
final class TrainCommand implements Callable<Integer> {
    @Mixin
    private SessionOptions session;

    @Option(names = "--inputs", paramLabel = "COLUMN", split = ",", defaultValue = "x,y",
            description = "Columns of the model's input (default: ${DEFAULT-VALUE}).")
    private List<String> inputs;

    @Option(names = "--label", paramLabel = "COLUMN", defaultValue = "label",
            description = "Column of the class, or of the value (default: ${DEFAULT-VALUE}).")
    private String label;

    @Option(names = "--model", paramLabel = "CLASS", description = "Factory of the model (default: a perceptron, or "
            + "with --pretraining a deep belief network).")
    private String factory;

    @Option(names = "--set", paramLabel = "NAME=VALUE", description = "Setting of the model (default: "
            + "sizes=2,64,64,2).")
    private Map<String, String> settings = new LinkedHashMap<>();

    @Option(names = "--loss", paramLabel = "L", defaultValue = "cross-entropy",
            description = "cross-entropy, binary-cross-entropy or mean-squared (default: ${DEFAULT-VALUE}).")
    private String loss;

    @Option(names = "--optimizer", paramLabel = "O", defaultValue = "adam",
            description = "adam, adamw or sgd (default: ${DEFAULT-VALUE}).")
    private String optimizer;

    @Option(names = "--rate", paramLabel = "R", defaultValue = "0.01",
            description = "Greatest learning rate of the one-cycle schedule (default: ${DEFAULT-VALUE}).")
    private double rate;

    @Option(names = "--epochs", paramLabel = "N", defaultValue = "10",
            description = "Passes over the rows (default: ${DEFAULT-VALUE}).")
    private int epochs;

    @Option(names = "--pretraining", paramLabel = "N", description = "First train each machine of a deep belief "
            + "network for so many epochs (default: no pre-training).")
    private Integer pretraining;

    @Option(names = "--pretraining-rate", paramLabel = "R", defaultValue = "0.005",
            description = "Learning rate at the start of each machine (default: ${DEFAULT-VALUE}).")
    private double pretrainingRate;

    @Option(names = "--held-out", paramLabel = "URI", description = "Rows to measure each epoch on.")
    private String heldOut;

    @Option(names = "--elastic", description = "Continue without a task that is lost, until Spark has "
            + "started it again.")
    private boolean elastic;

    @Option(names = "--batch", paramLabel = "N", defaultValue = "64",
            description = "Rows in a step, of all workers together under ring (default: ${DEFAULT-VALUE}).")
    private int batch;

    @Option(names = "--seed", paramLabel = "N", defaultValue = "1", description = "Default: ${DEFAULT-VALUE}.")
    private long seed;

    @Option(names = "--strategy", paramLabel = "S", defaultValue = "ring",
            description = "ring, gossip, gossip:PERIOD (0 for a pass), ps, ps:SERVERS or ps:SERVERS:STALENESS "
                    + "(default: ${DEFAULT-VALUE}).")
    private String strategy;

    @Option(names = "--workers", paramLabel = "N", description = "Tasks that train (default: one a partition, as far "
            + "as there are slots).")
    private Integer workers;

    @Option(names = "--checkpoints", paramLabel = "URI", description = "Where to save each epoch, and to resume from.")
    private String checkpoints;

    @Option(names = "--save", paramLabel = "URI", description = "Where to write the model, one safetensors file.")
    private String save;

    @Spec
    private CommandSpec spec;

    @Override
    public Integer call() throws Exception {
        boolean belief = pretraining != null;
        if (belief && !optimizer.equals("adam")) {
            throw new ParameterException(spec.commandLine(), "--optimizer " + optimizer + " does not apply to "
                    + "--pretraining, which needs adam: omit one of them");
        } else if (!belief && spec.commandLine().getParseResult().hasMatchedOption("--pretraining-rate")) {
            throw new ParameterException(spec.commandLine(), "--pretraining-rate applies to --pretraining N: add it, "
                    + "or omit the rate");
        }
        if (factory == null) {
            settings.putIfAbsent("sizes", "2,64,64,2");
        }
        Class<? extends ModelFactory> defaultFactory = belief ? DeepBelief.class : Perceptron.class;
        try (SparkSession spark = session.open()) {
            Dataset<Row> rows = session.read(spark);
            SparkTrainer trainer = SparkTrainer.of(new ModelDescription(
                            factory != null ? factory : defaultFactory.getName(),
                            settings), Choices.loss(loss), belief ? DeepBelief.adam(pretrainingRate, rate)
                            : Choices.optimizer(optimizer, rate)).inputs(inputs.toArray(String[]::new)).epochs(epochs)
                    .batchSize(batch).seed(seed).strategy(Choices.strategy(strategy))
                    .listeners(ProgressBar.onStandardError().unit("rows"));
            trainer = loss.equals("cross-entropy") ? trainer.classes(label).metrics(Metric::accuracy)
                    : trainer.target(label);
            trainer = belief ? trainer.pretraining(pretraining) : trainer;
            trainer = elastic ? trainer.elastic() : trainer;
            trainer = heldOut != null ? trainer.heldOut(session.read(spark, heldOut)) : trainer;
            trainer = workers != null ? trainer.workers(workers) : trainer;
            trainer = checkpoints != null ? trainer.checkpoints(checkpoints) : trainer;
            long begin = System.nanoTime();
            TrainedModel trained = trainer.fit(rows);
            double seconds = (System.nanoTime() - begin) / 1e9;
            spec.commandLine().getOut().println(summary(trained.epochs(), seconds));
            if (save != null) {
                trained.save(save, spark.sparkContext().hadoopConfiguration());
                spec.commandLine().getOut().println("saved " + save);
            }
            return 0;
        }
    }

    /** Describes what was trained; a run that resumes from the checkpoint of its end has trained no epoch. */
    static String summary(List<EpochReport> epochs, double seconds) {
        if (epochs.isEmpty()) {
            return "nothing was left to train: the checkpoint is of the end of the run";
        }
        EpochReport last = epochs.getLast();
        return String.format(Locale.ROOT, "%s%s  %d %s in %.1f s", last.training(),
                last.heldOut().map(scores -> "  held out: " + scores).orElse(""), last.epoch(),
                last.epoch() == 1 ? "epoch" : "epochs", seconds);
    }
}
