package dev.starling.spark.command;

import dev.starling.nn.model.ModelDescription;
import dev.starling.nn.search.Search;
import dev.starling.nn.search.SearchResult;
import dev.starling.nn.search.Trial;
import dev.starling.nn.train.Metric;
import dev.starling.spark.Choices;
import dev.starling.spark.Perceptron;
import dev.starling.spark.search.SparkSearch;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.Callable;
import org.apache.spark.sql.SparkSession;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/** Searches for hyper-parameters on the rows of a DataFrame. */
@Command(name = "search", mixinStandardHelpOptions = true, description = "Look for hyper-parameters: many trainings "
        + "side by side.")
final class SearchCommand implements Callable<Integer> {
    @Mixin
    private SessionOptions session;

    @Option(names = "--inputs", paramLabel = "COLUMN", split = ",", defaultValue = "x,y",
            description = "Columns of the model's input (default: ${DEFAULT-VALUE}).")
    private List<String> inputs;

    @Option(names = "--label", paramLabel = "COLUMN", defaultValue = "label",
            description = "Column of the class, or of the value (default: ${DEFAULT-VALUE}).")
    private String label;

    @Option(names = "--model", paramLabel = "CLASS", description = "Factory of the model (default: a perceptron).")
    private String factory = Perceptron.class.getName();

    @Option(names = "--set", paramLabel = "NAME=VALUE", description = "Setting that all trials share.")
    private Map<String, String> settings = new LinkedHashMap<>();

    @Option(names = "--over", paramLabel = "NAME=A/B/C",
            description = "Setting to try values of: rate, batch, optimizer "
            + "or one of the model (default: sizes=2,16,2/2,32,32,2/2,64,64,2 and rate=0.001/0.01/0.1).")
    private Map<String, String> over = new LinkedHashMap<>();

    @Option(names = "--random", paramLabel = "N", description = "Combinations to draw (default: all).")
    private Integer random;

    @Option(names = "--halving", paramLabel = "N", defaultValue = "3",
            description = "Train one of N further and stop the "
            + "others, repeatedly; 0 trains all to the end (default: ${DEFAULT-VALUE}).")
    private int halving;

    @Option(names = "--loss", paramLabel = "L", defaultValue = "cross-entropy",
            description = "cross-entropy, binary-cross-entropy or mean-squared (default: ${DEFAULT-VALUE}).")
    private String loss;

    @Option(names = "--epochs", paramLabel = "N", defaultValue = "9",
            description = "Passes over the rows of the longest trials (default: ${DEFAULT-VALUE}).")
    private int epochs;

    @Option(names = "--seed", paramLabel = "N", defaultValue = "1", description = "Default: ${DEFAULT-VALUE}.")
    private long seed;

    @Option(names = "--held-out", paramLabel = "SHARE", defaultValue = "0.2",
            description = "Share of the rows to measure on (default: ${DEFAULT-VALUE}).")
    private double heldOut;

    @Option(names = "--side-by-side", paramLabel = "N", description = "Trials at a time in each task, each in a "
            + "thread (default: spark.task.cpus). The results are the same for any number.")
    private Integer sideBySide;

    @Option(names = "--keep", paramLabel = "URI", description = "Directory of results; a later search makes only the "
            + "trials that are missing.")
    private String keep;

    @Spec
    private CommandSpec spec;

    @Override
    public Integer call() throws Exception {
        if (over.isEmpty() && settings.isEmpty()) {
            over.put("sizes", "2,16,2/2,32,32,2/2,64,64,2");
            over.put(Search.RATE, "0.001/0.01/0.1");
        } else if (over.isEmpty()) {
            throw new ParameterException(spec.commandLine(), "Name a setting to try values of, such as "
                    + "--over rate=0.001/0.01.");
        }
        Search search = Search.of(new ModelDescription(factory, settings), Choices.loss(loss)).epochs(epochs)
                .seed(seed).listener(this::show);
        over.forEach((name, values) -> search.over(name, values.split("/")));
        if (random != null) {
            search.random(random);
        }
        if (halving != 0) {
            search.halving(halving);
        }
        boolean isClass = loss.equals("cross-entropy");
        if (isClass) {
            search.metric(Metric::accuracy);
        }
        try (SparkSession spark = session.open()) {
            SparkSearch onSpark = SparkSearch.of(search).heldOut(heldOut).keep(keep);
            if (sideBySide != null) {
                onSpark.sideBySide(sideBySide);
            }
            SearchResult result = (isClass ? onSpark : onSpark.ofValues()).run(session.read(spark), inputs, label);
            return print(result);
        }
    }

    /** Prints all trials and the best; returns the exit code. */
    int print(SearchResult result) {
        spec.commandLine().getOut().println();
        spec.commandLine().getOut().print(result.table());
        Trial best = result.best();
        if (best.problem() != null) {
            spec.commandLine().getOut().flush();
            spec.commandLine().getErr().println("starling: all " + result.trials().size() + " trials failed, trial "
                    + best.number() + " because: " + best.problem());
            return 1;
        }
        spec.commandLine().getOut().println("best: " + best.settings() + (result.computed() == result.trials().size()
                ? "" : "  (" + result.computed() + " of " + result.trials().size() + " trials were missing)"));
        return 0;
    }

    private void show(Trial trial) {
        spec.commandLine().getErr().println(trial.problem() != null ? "trial " + trial.number() + " failed: "
                + trial.problem() : String.format(Locale.ROOT, "trial %d, %d %s: loss %.4f in %.1f s",
                trial.number(), trial.epochs(), trial.epochs() == 1 ? "epoch" : "epochs", trial.loss(),
                trial.seconds()));
    }
}
