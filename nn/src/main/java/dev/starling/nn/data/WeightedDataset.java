package dev.starling.nn.data;

import dev.starling.tensor.TensorException;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * Examples drawn at random with replacement, in every epoch anew: rare classes can be drawn as often as frequent ones.
 * Which example is at an index depends only on the loader's seed, the epoch and the index. An example that is drawn
 * twice in an epoch is the same both times, also if the data set changes its examples at random.
 */
public final class WeightedDataset implements Dataset {
    /** Separates these random numbers from others that are drawn with the same seed. */
    private static final long STREAM = 0x5765696768746564L;

    private final Dataset dataset;
    /** The sums of the weights up to each example. */
    private final double[] sums;
    private final int size;

    private WeightedDataset(Dataset dataset, double[] weights, int size) {
        Lengths.requireFixed("weighted data", dataset);
        this.dataset = dataset;
        this.size = size;
        sums = weights.clone();
        for (int i = 1; i < sums.length; i++) {
            sums[i] += sums[i - 1];
        }
        boolean positive = Arrays.stream(weights).allMatch(weight -> weight >= 0);
        if (dataset.isSequential() || weights.length != dataset.size() || !positive || size < 0 || size > 0
                && !(sums.length > 0 && sums[sums.length - 1] > 0 && Double.isFinite(sums[sums.length - 1]))) {
            throw TensorException.argument("weighted data", "each of the " + dataset.size() + " examples must have a "
                    + "weight of 0 or more, with a finite sum above 0, and a data set that is read in order cannot be "
                    + "drawn from; got " + weights.length + " weights for " + size + " draws",
                    "correct the weights");
        }
    }

    /**
     * Returns random examples.
     *
     * @param weights of the examples; an example is drawn with a probability proportional to its weight
     * @param size number of examples in an epoch
     */
    public static WeightedDataset of(Dataset dataset, double[] weights, int size) {
        return new WeightedDataset(dataset, weights, size);
    }

    /**
     * Returns as many random examples as the data set has, of each class equally many on average.
     *
     * @param classes the class of each example
     */
    public static WeightedDataset balanced(Dataset dataset, int[] classes) {
        Subset.requireClasses(dataset, classes);
        Map<Integer, Integer> counts = new HashMap<>();
        Arrays.stream(classes).forEach(c -> counts.merge(c, 1, Integer::sum));
        return of(dataset, Arrays.stream(classes).mapToDouble(c -> 1.0 / counts.getOrDefault(c, 1)).toArray(),
                dataset.size());
    }

    @Override
    public int size() {
        return size;
    }

    @Override
    public List<Field> fields() {
        return dataset.fields();
    }

    @Override
    public void write(int index, Example target) throws Exception {
        double total = sums[sums.length - 1];
        double random = ExampleRandom.of(target.seed() ^ STREAM, target.epoch(), index).nextDouble();
        // A product that is subnormal may be rounded to the total.
        double drawn = Math.min(random * total, Math.nextDown(total));
        int found = Arrays.binarySearch(sums, drawn);
        // The first example whose sum is above the number: those with weight 0 never are.
        int example = found < 0 ? -found - 1 : found + 1;
        while (example > 0 && sums[example - 1] > drawn) {
            example--;
        }
        while (example < sums.length - 1 && sums[example] <= drawn) {
            example++;
        }
        dataset.write(example, target);
    }
}
