package dev.starling.nn.serve;

import dev.starling.nn.Model;
import dev.starling.nn.RecordType;
import dev.starling.tensor.Device;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;

/**
 * A {@link Predictor} for a model whose inputs and results are records of tensors.
 *
 * <pre>{@code
 * House.Input example = new House.Input(Tensor.of(new long[] {7}), Tensor.zeros(3));
 * try (RecordPredictor<House.Input, House.Output> predictor = RecordPredictor.of(house, example).build();
 *         Scope scope = Scope.open("request")) {
 *     House.Output output = predictor.predict(example);      // from any thread
 * }
 * }</pre>
 *
 * @param <I> the record of the model's inputs
 * @param <O> the record of its results
 */
public final class RecordPredictor<I extends Record, O extends Record> implements AutoCloseable {
    private final BatchServer<Model<I, O>> server;
    private final RecordType<I> inputs;
    private final RecordType<O> outputs;

    private RecordPredictor(Model<I, O> model, List<Spec> example, PredictorBuilder.Settings settings) {
        inputs = model.inputs();
        outputs = model.outputs();
        server = new BatchServer<>(model, example, m -> in -> outputs.tensors(m.apply(inputs.create(in))), settings);
    }

    /**
     * Starts a predictor.
     *
     * @param example tensors of the types and shapes of one example, without the dimension of the batch; their elements
     *     have no effect
     */
    public static <I extends Record, O extends Record> PredictorBuilder<RecordPredictor<I, O>> of(Model<I, O> model,
            I example) {
        List<Spec> specs = Arrays.stream(RecordType.of(example).tensors(example))
                .map(t -> new Spec(t.dtype(), t.shape(), Device.cpu())).toList();
        return new PredictorBuilder<>(settings -> new RecordPredictor<>(model, specs, settings));
    }

    /** Returns the results for one example; see {@link #predict(Record, Duration)}. */
    public O predict(I example) {
        return predict(example, server.timeout());
    }

    /**
     * Returns the results for one example.
     *
     * @param example one example, without the dimension of the batch; must not be changed or closed until this returns
     *     or throws
     * @param timeout how long this may take
     * @return new tensors in host memory, without the dimension of the batch, which the current scope of the calling
     *     thread owns
     * @throws PredictionException if there is no result
     * @throws TensorException if a tensor of the example has another type or shape
     */
    public O predict(I example, Duration timeout) {
        Tensor[] results = server.predict(inputs.tensors(example), timeout);
        return outputs.create(results);
    }

    /** Serves another model from the next batch on; see {@link Predictor#swap}. */
    public Model<I, O> swap(Model<I, O> fresh) {
        return server.swap(fresh);
    }

    /** Returns what this predictor has done so far. */
    public PredictorStats stats() {
        return server.stats();
    }

    /** Answers the requests that wait and stops; see {@link Predictor#close}. */
    @Override
    public void close() {
        server.close();
    }
}
