package dev.starling.nn.serve;

import dev.starling.nn.Mode;
import dev.starling.tensor.Device;
import dev.starling.tensor.Recorder;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import dev.starling.tensor.program.Program;
import java.lang.System.Logger.Level;
import java.util.Arrays;
import java.util.List;
import java.util.function.Consumer;
import java.util.function.Supplier;
import java.util.function.UnaryOperator;
import java.util.stream.IntStream;
import org.jspecify.annotations.Nullable;

/**
 * A model with memory for batches. Batches are computed in a few sizes (1, 2, 3, 4, 6, 8, 12, ..), each captured once
 * as a {@link Program}; unused rows repeat the first. The model is a function of any number of tensors, because the
 * form in which callers give examples is not known here. Confined to one thread at a time.
 */
final class BatchedModel implements AutoCloseable {
    private static final System.Logger LOG = System.getLogger("dev.starling.nn.serve");

    private final UnaryOperator<Tensor[]> forward;
    private final Device device;
    private final int[] sizes;
    /** The inputs for the largest batch, in host memory. */
    private final Tensor[] inputs;
    private final Rows inputRows;
    /** By size, the first rows of the inputs. */
    private final Tensor[][] batches;
    /** By size, the program, or {@code null} if the model cannot be captured. */
    private final @Nullable Program[] programs;
    private List<Spec> outputs = List.of();

    /**
     * Captures a model for all sizes.
     *
     * @param forward the model, for batches on {@code device}
     * @param example the type and shape of each input, without the dimension of the batch
     * @throws TensorException if the model fails, or returns tensors whose first dimension is not the batch
     */
    BatchedModel(UnaryOperator<Tensor[]> forward, Device device, List<Spec> example, int maxBatch) {
        this.forward = forward;
        this.device = device;
        sizes = sizes(maxBatch);
        inputs = Scope.detached(() -> example.stream().map(one -> Tensor.full(new Spec(one.dtype(),
                one.shape().insert(0, maxBatch), Device.cpu()), 0)).toArray(Tensor[]::new));
        inputRows = Rows.of(inputs);
        batches = new Tensor[sizes.length][];
        programs = new Program[sizes.length];
        try {
            for (int i = 0; i < sizes.length; i++) {
                int at = i;
                isolated(() -> {
                    prepare(at);
                    return null;
                });
            }
        } catch (Throwable e) {
            close();
            throw e;
        }
    }

    private static int[] sizes(int max) {
        return IntStream.concat(IntStream.iterate(1, size -> size < max, size -> 2 * size)
                .flatMap(size -> IntStream.of(size, size + size / 2)).filter(size -> size < max),
                IntStream.of(max)).distinct().toArray();
    }

    /** Runs {@code body} in a scope of its own, in inference mode, without recording. */
    private static <T extends @Nullable Object> T isolated(Supplier<T> body) {
        try (Scope scope = Scope.open("predict")) {
            return Recorder.with(Recorder.NONE, () -> Mode.inference(body));
        }
    }

    /** Captures the model for a size; the first size determines the outputs. */
    private void prepare(int i) {
        int size = sizes[i];
        batches[i] = Arrays.stream(inputs).map(all -> all.narrow(0, 0, size)).toArray(Tensor[]::new);
        Tensor[] results;
        try {
            Tensor[] onDevice = Arrays.stream(batches[i]).map(t -> t.to(device)).toArray(Tensor[]::new);
            Program.Captured captured = Program.capture(null, forward::apply, onDevice);
            programs[i] = captured.program();
            results = captured.outputs();
        } catch (TensorException e) {
            results = eager(i);
            if (i == 0) {
                LOG.log(Level.INFO, "predictions run without capture: " + e.getMessage());
            }
        }
        if (i == 0) {
            outputs = ofExample(results, size);
        }
        requireOutputs(results, size);
        // A program plans its memory in its first run.
        run(size, rows -> { });
    }

    private void requireOutputs(Tensor[] results, int size) {
        boolean fits = results.length == outputs.size();
        for (int i = 0; fits && i < results.length; i++) {
            fits = isBatchOf(results[i], size, outputs.get(i));
        }
        if (!fits) {
            throw new TensorException(TensorException.Problem.SHAPE, "predictor", ofExample(results, size),
                    "each example must have a result of the same type and shape; the first batch returned " + outputs,
                    "return one result for each example, whose shape does not depend on the elements");
        }
    }

    private static boolean isBatchOf(Tensor result, int size, Spec example) {
        int rank = example.shape().rank();
        boolean is = result.dtype() == example.dtype() && result.rank() == rank + 1 && result.size(0) == size;
        for (int d = 0; is && d < rank; d++) {
            is = result.size(d + 1) == example.shape().dim(d);
        }
        return is;
    }

    private static List<Spec> ofExample(Tensor[] results, int size) {
        return Arrays.stream(results).map(result -> ofExample(result.spec(), size)).toList();
    }

    private static Spec ofExample(Spec batch, int size) {
        if (batch.shape().rank() == 0 || batch.shape().dim(0) != size) {
            throw new TensorException(TensorException.Problem.SHAPE, "predictor", List.of(batch),
                    "the first dimension of a result must be the batch, " + size,
                    "return one result for each example");
        }
        return new Spec(batch.dtype(), batch.shape().without(0), Device.cpu());
    }

    /** Returns the type and shape of each output for one example, in host memory. */
    List<Spec> outputs() {
        return outputs;
    }

    /** Returns the memory of the inputs. */
    Rows inputs() {
        return inputRows;
    }

    /**
     * Computes the first {@code n} rows of the inputs.
     *
     * @param listener receives the outputs, which are valid during the call
     * @throws TensorException if the model fails, or returns tensors of other types or shapes than {@link #outputs}
     */
    void run(int n, Consumer<Rows> listener) {
        int i = Arrays.binarySearch(sizes, n);
        int at = i < 0 ? -i - 1 : i;
        for (int row = n; row < sizes[at]; row++) {
            inputRows.copy(0, row);
        }
        isolated(() -> {
            Program program = programs[at];
            Tensor[] results = program == null ? eager(at) : replay(program, at);
            requireOutputs(results, sizes[at]);
            listener.accept(Rows.of(Arrays.stream(results).map(t -> t.to(Device.cpu()).contiguous())
                    .toArray(Tensor[]::new)));
            return null;
        });
    }

    private Tensor[] replay(Program program, int i) {
        try {
            return program.run(batches[i]);
        } catch (TensorException e) {
            if (e.problem() != TensorException.Problem.CLOSED) {
                throw e;
            }
            throw new TensorException(TensorException.Problem.CLOSED, "predict", List.of(), "a parameter of the model "
                    + "was closed, converted or moved while the predictor serves it", "close the model after the "
                    + "predictor; change to another model with swap()");
        }
    }

    private Tensor[] eager(int i) {
        return forward.apply(Arrays.stream(batches[i]).map(t -> t.to(device)).toArray(Tensor[]::new));
    }

    /** Frees programs and inputs, but not the model. */
    @Override
    public void close() {
        for (Program program : programs) {
            if (program != null) {
                program.close();
            }
        }
        for (Tensor input : inputs) {
            input.close();
        }
    }
}
