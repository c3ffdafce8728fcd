package dev.starling.nn.train;

import dev.starling.nn.Layer;
import dev.starling.nn.Mode;
import dev.starling.nn.Model;
import dev.starling.nn.Precision;
import dev.starling.nn.RecordType;
import dev.starling.nn.data.Batch;
import dev.starling.nn.data.DataLoader;
import dev.starling.tensor.Device;
import dev.starling.tensor.Recorder;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.function.Function;
import java.util.function.Supplier;

/** What a model computes for data, in inference mode and without recording. */
public final class Predictions {
    private Predictions() {
    }

    /**
     * Returns the results for epoch 0 of some data, in the order of its batches: {@code [N, ..]} on the host, in the
     * current scope. Batches are computed one after the other on the model's device, in the
     * {@link Precision#current} precision.
     *
     * @param data need not have meaningful targets; a shuffled loader gives rows in its order
     * @throws TensorException if there is no example, among other reasons
     */
    public static Tensor of(Layer model, DataLoader data) {
        return batches(data, batch -> new Tensor[] {Precision.current().forward(model,
                batch.input().to(model.device()))})[0];
    }

    /**
     * Returns the results of a model of several inputs or results, as {@link #of(Layer, DataLoader)} does: a record of
     * tensors {@code [N, ..]}.
     *
     * @param data has the model's inputs, by name; it may have other fields
     */
    public static <I extends Record, O extends Record> O records(Model<I, O> model, DataLoader data) {
        RecordType<I> in = model.inputs();
        data.require(model.describe(), in.names());
        Tensor[] results = batches(data, batch -> model.outputs().tensors(Precision.current().forward(model,
                in.create(in.names().stream().map(name -> batch.tensor(name).to(model.device()))
                        .toArray(Tensor[]::new)))));
        return model.outputs().create(results);
    }

    /**
     * Returns the results for all rows of {@code inputs [N, ..]} at once, in the current scope on the model's device.
     */
    public static Tensor of(Layer model, Tensor inputs) {
        return inference(() -> new Tensor[] {Precision.current().forward(model, inputs.to(model.device()))})[0];
    }

    private static Tensor[] inference(Supplier<Tensor[]> call) {
        try (Scope scope = Scope.open("predictions")) {
            Tensor[] results = Mode.inference(() -> Recorder.with(Recorder.NONE, call));
            Arrays.stream(results).forEach(scope::keep);
            return results;
        }
    }

    /** Computes each batch that has rows, and joins the results. */
    private static Tensor[] batches(DataLoader data, Function<Batch, Tensor[]> forward) {
        return inference(() -> {
            List<Tensor[]> parts = new ArrayList<>();
            for (Batch batch : data.epoch(0)) {
                if (batch.size() > 0) {
                    parts.add(inference(() -> Arrays.stream(forward.apply(batch)).map(y -> y.to(Device.cpu()).copy())
                            .toArray(Tensor[]::new)));
                }
            }
            if (parts.isEmpty()) {
                throw TensorException.argument("predictions", "there is no example to compute", "check the data set");
            }
            Tensor[] joined = new Tensor[parts.getFirst().length];
            Arrays.setAll(joined, i -> join(parts.stream().map(each -> each[i]).toArray(Tensor[]::new)));
            return joined;
        });
    }

    private static Tensor join(Tensor... parts) {
        for (Tensor part : parts) {
            if (part.rank() == 0 || !part.shape().without(0).equals(parts[0].shape().without(0))) {
                throw new TensorException(TensorException.Problem.SHAPE, "predictions", List.of(parts[0].spec(),
                        part.spec()), "the results of all batches must be [N, ..] with the same sizes after N",
                        "pad all batches to one length with DataLoader.Builder.lengths(..)");
            }
        }
        return Tensor.concat(0, parts);
    }
}
