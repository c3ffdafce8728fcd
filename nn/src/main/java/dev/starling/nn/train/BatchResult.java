package dev.starling.nn.train;

import dev.starling.tensor.Tensor;
import java.util.Arrays;

/**
 * What the forward pass of a batch with rows results in. Losses have not been read yet.
 *
 * @param loss the weighted sum of the losses
 * @param losses each loss without its weight
 * @param results the model's results that have a loss or a metric
 * @param targets the target of each of these results, on the model's device
 * @param rows number of rows, at least 1
 */
record BatchResult(Tensor loss, Tensor[] losses, Tensor[] results, Tensor[] targets, long rows) {
    /** Returns the number of {@link #tensors} of a task's results. */
    static int size(Task task) {
        return 1 + task.losses() + 2 * task.results();
    }

    /** Returns all tensors, with room for {@code more}. */
    Tensor[] tensors(int more) {
        Tensor[] all = new Tensor[1 + losses.length + 2 * results.length + more];
        all[0] = loss;
        System.arraycopy(losses, 0, all, 1, losses.length);
        System.arraycopy(results, 0, all, 1 + losses.length, results.length);
        System.arraycopy(targets, 0, all, 1 + losses.length + results.length, targets.length);
        return all;
    }

    /** Returns the result whose {@link #tensors} these are. */
    static BatchResult of(Tensor[] tensors, Task task, long rows) {
        int results = 1 + task.losses();
        int targets = results + task.results();
        return new BatchResult(tensors[0], Arrays.copyOfRange(tensors, 1, results),
                Arrays.copyOfRange(tensors, results, targets),
                Arrays.copyOfRange(tensors, targets, targets + task.results()), rows);
    }
}
