package dev.starling.nn.train;

import dev.starling.tensor.Device;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.program.Explanation;
import dev.starling.tensor.program.Program;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.function.IntConsumer;
import org.jspecify.annotations.Nullable;

/**
 * Runs the forward and backward pass of a step as a captured program. A form of batch that occurs twice in a row is
 * captured the second time and replayed from then on, as is each of a few forms if lengths differ. Other forms, such as
 * a smaller last batch of an epoch, run without capture.
 */
final class CapturedPass {
    /** The mark of the point at which the loss is known. The marks of gradients are their indices. */
    static final int LOSS = -1;
    /** Programs that are kept; each has memory of its own. */
    private static final int MAX_PROGRAMS = 4;

    private final Task task;
    private final Device device;
    private final Generator generator;
    private final Function<StepBatch, BatchResult> pass;
    private final Tensor[] gradients;
    private final Consumer<BatchResult> onLoss;
    private final IntConsumer onGradient;
    /** The index of the first gradient in the outputs of the program. */
    private final int firstGradient;
    private final Program.MarkListener markListener = this::onMark;
    /** The programs, the one that was used last in front. */
    private final List<Replay> replays = new ArrayList<>();
    /** The form of the last batch, or {@code null}. */
    private @Nullable Form last;

    /** The captured program, for batches of one form. */
    private static final class Replay {
        private final Program program;
        private final Form form;
        /** The result of each replay, which consists of the same tensors; {@code null} before the first. */
        private @Nullable BatchResult result;

        Replay(Program program, Form form) {
            this.program = program;
            this.form = form;
        }
    }

    /** The properties in which a batch must equal the captured one for the program to be replayed. */
    private record Form(Spec[] fields, double weight) {
        static Form of(StepBatch batch) {
            return new Form(Arrays.stream(batch.fields()).map(Tensor::spec).toArray(Spec[]::new), batch.weight());
        }

        boolean fits(StepBatch batch) {
            boolean fits = weight == batch.weight();
            for (int i = 0; fits && i < fields.length; i++) {
                fits = fits(fields[i], batch.fields()[i].spec());
            }
            return fits;
        }

        /** Compares type and shape; an input may come from any device. */
        private static boolean fits(Spec spec, Spec other) {
            return spec.dtype() == other.dtype() && spec.shape().equals(other.shape());
        }
    }

    /**
     * Creates a pass that has not captured anything yet.
     *
     * @param task what the pass computes
     * @param device where the pass runs
     * @param pass the pass, which stores gradients in {@code gradients}, and marks {@link #LOSS} and each index
     * @param gradients of the step by index
     * @param onLoss receives the result of a replayed pass when its loss is known
     * @param onGradient receives the index of each gradient of a replayed pass when it is final
     */
    CapturedPass(Task task, Device device, Generator generator, Function<StepBatch, BatchResult> pass,
            Tensor[] gradients, Consumer<BatchResult> onLoss, IntConsumer onGradient) {
        this.task = task;
        firstGradient = BatchResult.size(task);
        this.device = device;
        this.generator = generator;
        this.pass = pass;
        this.gradients = gradients;
        this.onLoss = onLoss;
        this.onGradient = onGradient;
    }

    /** Replays, captures or runs the pass for a batch, which is the only one of its step. */
    BatchResult run(StepBatch batch) {
        Replay replay = replayOf(batch);
        // Programs of different forms may use different parameters.
        if (replay != null && !replay.program.isCurrent()) {
            close();
            replay = null;
        }
        if (replay != null) {
            last = replay.form;
            Tensor[] outputs = replay.program.run(markListener, batch.fields());
            BatchResult result = replay.result == null ? BatchResult.of(outputs, task, batch.rows()) : replay.result;
            replay.result = result;
            return result;
        }
        if (last == null || !last.fits(batch)) {
            last = Form.of(batch);
            return pass.apply(batch);
        }
        if (replays.size() == MAX_PROGRAMS) {
            replays.removeLast().program.close();
        }
        Program.Captured captured = Program.capture(generator, inputs -> outputs(pass.apply(StepBatch.single(inputs,
                batch.weight()))), Task.to(device, batch.fields()));
        last = Form.of(batch);
        replays.addFirst(new Replay(captured.program(), last));
        return BatchResult.of(captured.outputs(), task, batch.rows());
    }

    /** Returns the program for batches of this form and moves it to the front, or {@code null} if there is none. */
    private @Nullable Replay replayOf(StepBatch batch) {
        for (int i = 0; i < replays.size(); i++) {
            Replay each = replays.get(i);
            if (each.form.fits(batch)) {
                if (i > 0) {
                    replays.addFirst(replays.remove(i));
                }
                return each;
            }
        }
        return null;
    }

    private Tensor[] outputs(BatchResult result) {
        Tensor[] outputs = result.tensors(gradients.length);
        System.arraycopy(gradients, 0, outputs, firstGradient, gradients.length);
        return outputs;
    }

    /** In a replay, does what the pass does in addition to the recorded operations. */
    private void onMark(int label, Tensor[] outputs) {
        if (label == LOSS) {
            onLoss.accept(BatchResult.of(outputs, task, 0));
        } else {
            gradients[label] = outputs[firstGradient + label];
            onGradient.accept(label);
        }
    }

    /** Explains the program that ran last, if there is one. */
    Optional<Explanation> explain() {
        return replays.isEmpty() ? Optional.empty() : Optional.of(replays.getFirst().program.explain());
    }

    void close() {
        replays.forEach(each -> each.program.close());
        replays.clear();
        last = null;
    }
}
