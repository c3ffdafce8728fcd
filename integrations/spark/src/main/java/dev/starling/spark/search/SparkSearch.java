package dev.starling.spark.search;

import dev.starling.nn.loss.Loss;
import dev.starling.nn.model.ModelDescription;
import dev.starling.nn.train.Metric;
import dev.starling.spark.PackedRows;
import dev.starling.spark.Recipe;
import dev.starling.tensor.TensorException;
import java.util.AbstractMap.SimpleImmutableEntry;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;

/**
 * Looks for hyper-parameters: each trial trains one model in one Spark task, side by side with others, on a part of the
 * rows, and is measured on the rest. The same seed gives the same trials with the same results.
 *
 * <pre>{@code
 * SearchResult result = SparkSearch.of(ModelDescription.of(Perceptron.class, Map.of()), Loss::crossEntropy)
 *         .over("sizes", "2,8,2", "2,32,2").over(SparkSearch.RATE, "0.001", "0.01").epochs(9).halving(3)
 *         .metric(Metric::accuracy).run(frame, List.of("x", "y"), "label");
 * System.out.println(result.table());
 * }</pre>
 */
public final class SparkSearch {
    /** The setting that is the greatest learning rate of the one-cycle schedule; 0.001 by default. */
    public static final String RATE = "rate";
    /** The setting that is the number of rows in a step; 32 by default. */
    public static final String BATCH = "batch";
    /** The setting that names the optimiser; {@code adam} by default. All other settings are the model's. */
    public static final String OPTIMIZER = "optimizer";

    private final ModelDescription model;
    private final Recipe<Loss> loss;
    private final Map<String, List<String>> choices = new LinkedHashMap<>();
    private Recipe<Metric> metric;
    private boolean isClass = true;
    private int epochs = 1;
    private int samples;
    private int factor;
    private double heldOut = 0.2;
    private long seed;

    private SparkSearch(ModelDescription model, Recipe<Loss> loss) {
        this.model = model;
        this.loss = loss;
    }

    /**
     * Begins a search.
     *
     * @param model with the settings that all trials share
     */
    public static SparkSearch of(ModelDescription model, Recipe<Loss> loss) {
        return new SparkSearch(model, loss);
    }

    /** Adds a setting and the values to try. By default all combinations are tried. */
    public SparkSearch over(String setting, String... values) {
        require(values.length > 0, "the setting " + setting + " needs values");
        choices.put(setting, List.of(values));
        return this;
    }

    /** Tries so many combinations, drawn from the seed without repetition. */
    public SparkSearch random(int combinations) {
        require(combinations > 0, "combinations must be positive, got " + combinations);
        samples = combinations;
        return this;
    }

    /**
     * Tries all for few epochs, the best of {@code factor} for {@code factor} times as many, and so on up to the whole
     * number; each round begins anew. (Jamieson and Talwalkar, 2016)
     */
    public SparkSearch halving(int keepOneOf) {
        require(keepOneOf > 1, "the factor must be above 1, got " + keepOneOf);
        factor = keepOneOf;
        return this;
    }

    /** Sets the passes over the rows; the default is 1. */
    public SparkSearch epochs(int count) {
        require(count > 0, "epochs must be positive, got " + count);
        epochs = count;
        return this;
    }

    /** Sets what is measured beside the loss, by which trials are compared. */
    public SparkSearch metric(Recipe<Metric> measured) {
        metric = measured;
        return this;
    }

    /** Takes targets as numbers, not as classes. */
    public SparkSearch ofValues() {
        isClass = false;
        return this;
    }

    /** Sets the share of rows, the last ones, to measure on; the default is 0.2. */
    public SparkSearch heldOut(double share) {
        require(share > 0 && share < 1, "the held-out share must be between 0 and 1, got " + share);
        heldOut = share;
        return this;
    }

    /** Sets what combinations, weights and order are drawn from; the default is 0. */
    public SparkSearch seed(long value) {
        seed = value;
        return this;
    }

    /**
     * Runs all trials and waits for them.
     *
     * @throws dev.starling.spark.SparkDataException if the rows cannot be trained on
     */
    public SearchResult run(Dataset<Row> frame, List<String> inputs, String target) {
        SparkSession session = frame.sparkSession();
        JavaSparkContext context = JavaSparkContext.fromSparkContext(
                ((org.apache.spark.sql.classic.SparkSession) session).sparkContext());
        PackedRows rows = PackedRows.of(frame, inputs, target, isClass);
        int training = Math.clamp((long) Math.floor(rows.size() * (1 - heldOut)), 1, Math.max(1, rows.size() - 1));
        require(rows.size() > 1, "a search needs two rows or more, got " + rows.size());
        Broadcast<PackedRows> shared = context.broadcast(rows);
        List<Trial> all = new ArrayList<>();
        Map<Integer, Map<String, String>> left = combinations();
        for (int round = rounds(left.size()); round >= 0; round--) {
            int now = Math.max(1, epochs / (int) Math.pow(Math.max(1, factor), round));
            List<Map.Entry<Integer, Map<String, String>>> entries = new ArrayList<>();
            left.forEach((number, settings) -> entries.add(new SimpleImmutableEntry<>(number, settings)));
            List<Trial> trials = context.parallelize(entries, entries.size()).map(new TrialTask(shared, training,
                    model.factory(), model.settings(), loss, metric, seed, now)).collect();
            all.addAll(trials);
            left = best(trials, round == 0 ? trials.size() : Math.max(1, trials.size() / Math.max(1, factor)));
        }
        shared.destroy();
        return new SearchResult(session, all);
    }

    /** Returns how often the number of trials is divided. */
    private int rounds(int trials) {
        int rounds = 0;
        long divisor = 1;
        while (factor > 1 && divisor * factor <= Math.min(trials, epochs)) {
            divisor *= factor;
            rounds++;
        }
        return rounds;
    }

    private static Map<Integer, Map<String, String>> best(List<Trial> trials, int count) {
        Map<Integer, Map<String, String>> kept = new LinkedHashMap<>();
        trials.stream().sorted(Comparator.comparingDouble(Trial::loss).thenComparingInt(Trial::number)).limit(count)
                .sorted(Comparator.comparingInt(Trial::number)).forEach(t -> kept.put(t.number(), t.settings()));
        return kept;
    }

    private Map<Integer, Map<String, String>> combinations() {
        List<Map<String, String>> all = new ArrayList<>(List.of(new LinkedHashMap<>()));
        choices.forEach((name, values) -> {
            List<Map<String, String>> longer = new ArrayList<>();
            all.forEach(one -> values.forEach(value -> {
                Map<String, String> more = new LinkedHashMap<>(one);
                more.put(name, value);
                longer.add(more);
            }));
            all.clear();
            all.addAll(longer);
        });
        if (samples > 0) {
            Collections.shuffle(all, java.util.Random.from(new SplittableRandom(seed)));
        }
        Map<Integer, Map<String, String>> numbered = new LinkedHashMap<>();
        for (int i = 0; i < (samples > 0 ? Math.min(samples, all.size()) : all.size()); i++) {
            numbered.put(i, all.get(i));
        }
        return numbered;
    }

    private static void require(boolean holds, String relation) {
        if (!holds) {
            throw TensorException.argument("search", relation, "change it");
        }
    }
}
