package dev.starling.nn.serve;

import dev.starling.nn.Layer;
import dev.starling.tensor.DType;
import dev.starling.tensor.Device;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.List;

/**
 * Serves a model to any number of platform and virtual threads. Requests that arrive together are computed together,
 * by a thread of the predictor, in captured programs whose memory is allocated when the predictor is made.
 *
 * <pre>{@code
 * try (Predictor predictor = Predictor.of(model, 784).maxBatch(32).build()) {
 *     float[] scores = predictor.predict(pixels);     // from any thread
 * }
 * }</pre>
 *
 * <p>The model must compute each example independently of the others in its batch, as layers in inference mode do. A
 * request that the predictor cannot answer ends with a {@link PredictionException}. If the model fails for a batch, its
 * examples are computed again one by one, so that only those that cause the failure fail. The predictor does not own
 * the model: close the model after the predictor.
 */
public final class Predictor implements AutoCloseable {
    private final BatchServer<Layer> server;

    private Predictor(Layer model, Spec example, PredictorBuilder.Settings settings) {
        server = new BatchServer<>(model, List.of(example), m -> in -> new Tensor[] {m.apply(in[0])}, settings);
    }

    /** Starts a predictor of a model with one input, whose examples are f32 of this shape: {@code 784}. */
    public static PredictorBuilder<Predictor> of(Layer model, long... example) {
        return of(model, new Spec(DType.F32, Shape.of(example), Device.cpu()));
    }

    /**
     * Starts a predictor of a model with one input.
     *
     * @param example type and shape of one example, without the dimension of the batch; its device has no effect
     */
    public static PredictorBuilder<Predictor> of(Layer model, Spec example) {
        return new PredictorBuilder<>(settings -> new Predictor(model, example, settings));
    }

    /** Returns the result for one example; see {@link #predict(float[], float[], Duration)}. */
    public float[] predict(float[] example) {
        float[] result = new float[(int) requireF32(server.outputs()).shape().count()];
        predict(example, result, server.timeout());
        return result;
    }

    /**
     * Computes the result for one example.
     *
     * @param example the elements in row-major order, which must not change until this returns or throws
     * @param result receives the elements of the result in row-major order
     * @param timeout how long this may take
     * @throws PredictionException if there is no result; {@code result} is then unchanged
     * @throws TensorException if input and output of the model are not f32, or an array does not have their size
     */
    public void predict(float[] example, float[] result, Duration timeout) {
        requireCount(example.length, requireF32(server.examples()), "example");
        requireCount(result.length, requireF32(server.outputs()), "result");
        server.predict(new MemorySegment[] {MemorySegment.ofArray(example)},
                new MemorySegment[] {MemorySegment.ofArray(result)}, timeout);
    }

    private static void requireCount(int length, Spec spec, String what) {
        if (length != spec.shape().count()) {
            throw new TensorException(TensorException.Problem.SHAPE, "predict", List.of(spec), "the " + what
                    + " must have " + spec.shape().count() + " elements, got " + length,
                    "pass the elements of one example, without the dimension of the batch");
        }
    }

    private static Spec requireF32(List<Spec> specs) {
        Spec spec = specs.getFirst();
        if (spec.dtype() != DType.F32) {
            throw new TensorException(TensorException.Problem.DTYPE, "predict", List.of(spec),
                    "an array of floats needs an f32 input and an f32 result", "use predict(Tensor)");
        }
        return spec;
    }

    /** Returns the result for one example; see {@link #predict(Tensor, Duration)}. */
    public Tensor predict(Tensor example) {
        return predict(example, server.timeout());
    }

    /**
     * Returns the result for one example.
     *
     * @param example of the example's type and shape, without the dimension of the batch; must not be changed or closed
     *     until this returns or throws
     * @param timeout how long this may take
     * @return a new tensor in host memory, which the current scope of the calling thread owns
     * @throws PredictionException if there is no result
     * @throws TensorException if the example has another type or shape
     */
    public Tensor predict(Tensor example, Duration timeout) {
        return server.predict(new Tensor[] {example}, timeout)[0];
    }

    /**
     * Serves another model from the next batch on. The new model is captured and warmed up on the calling thread while
     * the old one serves; then this waits for the batch in progress. Each answer is from one of the two models, and
     * answers to requests that begin after this has returned are from the new one.
     *
     * @param fresh takes the same examples and returns results of the same type and shape
     * @return the old model, which the predictor does not use any more, for the caller to close
     * @throws TensorException if the new model does not fit; the old one continues to serve
     * @throws PredictionException if the predictor is closed
     */
    public Layer swap(Layer fresh) {
        return server.swap(fresh);
    }

    /** Returns what this predictor has done so far. */
    public PredictorStats stats() {
        return server.stats();
    }

    /**
     * Refuses further requests, answers those that wait, stops the thread and frees the memory. Closing twice has no
     * effect.
     *
     * @throws PredictionException if the thread does not stop within the timeout of requests and 30 s; its memory is
     *     then not freed
     */
    @Override
    public void close() {
        server.close();
    }
}
