package dev.starling.nn.data;

import dev.starling.tensor.Generator;
import dev.starling.tensor.TensorException;
import java.util.Arrays;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * The lengths of a data set's examples, of its batches, and the order that puts examples of like length together.
 *
 * @param dataset the examples
 * @param allowed lengths of batches in ascending order; empty if a batch has the length of its longest example
 * @param longest the largest length; 0 if no field varies
 */
record Lengths(Dataset dataset, List<Integer> allowed, int longest) {
    /** Batches whose examples are sorted together: many enough for like lengths, few enough for a random order. */
    private static final int WINDOW = 100;

    /** Returns the lengths of a data set, whose fields must be as long as each other. */
    static Lengths of(Dataset dataset, List<Integer> allowed) {
        long longest = 0;
        for (Field field : dataset.fields()) {
            if (field.length() != Field.Length.FIXED) {
                if (longest > 0 && field.shape().dim(0) != longest) {
                    throw TensorException.argument("data loader", "the padded fields must have one largest length, got "
                            + longest + " and " + field.shape().dim(0), "use the larger of them in both");
                }
                longest = field.shape().dim(0);
            }
        }
        if (!allowed.isEmpty() && (longest == 0 || allowed.getLast() != longest)) {
            throw TensorException.argument("data loader", "the last of the lengths " + allowed + " must be " + longest
                    + ", that of the longest example", longest == 0 ? "leave out lengths(..) for a data set without "
                    + "padded fields" : "add " + longest);
        }
        return new Lengths(dataset, allowed, Math.toIntExact(longest));
    }

    /** Requires that no field of a data set varies in length. */
    static void requireFixed(String operation, Dataset dataset) {
        if (dataset.fields().stream().anyMatch(field -> field.length() != Field.Length.FIXED)) {
            throw TensorException.argument(operation, "all examples must have the same shapes, got padded fields "
                    + dataset.fields(), "use Subset or ConcatDataset, which keep the lengths of examples");
        }
    }

    /** Returns the length of an example. */
    int of(int index) {
        int length = dataset.length(index);
        if (length < 0 || length > longest) {
            throw TensorException.argument("data loader", "example " + index + " has length " + length
                    + ", but its fields at most " + longest, length < 0 ? "override Dataset.length"
                    : "give the fields the length of the longest example");
        }
        return length;
    }

    /** Returns the length of a batch's rows: at least 1, or 0 if no field varies. */
    int ofBatch(EpochPlan plan, int number) {
        if (longest == 0) {
            return 0;
        }
        int length = 1;
        for (int i = 0; i < plan.size(number); i++) {
            length = Math.max(length, of(plan.index(number, i)));
        }
        for (int each : allowed) {
            if (each >= length) {
                return each;
            }
        }
        return length;
    }

    /**
     * Returns an order in which the examples of a batch have like lengths: windows of the given order, each sorted by
     * length, with the batches in random order. Examples that do not fill a batch stay last.
     *
     * @param order the examples, which is not changed
     * @param random {@code null} if the batches stay in ascending order
     */
    long[] sorted(long[] order, int batchSize, @Nullable Generator random) {
        int full = order.length / batchSize;
        long[] sorted = order.clone();
        for (int first = 0; first < full; first += WINDOW) {
            int from = first * batchSize;
            int to = Math.min(full, first + WINDOW) * batchSize;
            // The length in the upper half; equal lengths keep their order by their place in the lower one.
            long[] keys = new long[to - from];
            for (int i = 0; i < keys.length; i++) {
                keys[i] = (long) of((int) order[from + i]) << Integer.SIZE | i;
            }
            Arrays.sort(keys);
            for (int i = 0; i < keys.length; i++) {
                sorted[from + i] = order[from + (int) keys[i]];
            }
        }
        if (random == null) {
            return sorted;
        }
        long[] batches = random.order(full);
        long[] result = sorted.clone();
        for (int i = 0; i < full; i++) {
            System.arraycopy(sorted, (int) batches[i] * batchSize, result, i * batchSize, batchSize);
        }
        return result;
    }
}
