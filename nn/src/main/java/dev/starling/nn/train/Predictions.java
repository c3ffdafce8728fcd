package dev.starling.nn.train;

import dev.starling.nn.Layer;
import dev.starling.nn.Mode;
import dev.starling.nn.Precision;
import dev.starling.nn.data.Batch;
import dev.starling.nn.data.DataLoader;
import dev.starling.tensor.Device;
import dev.starling.tensor.Recorder;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import java.util.ArrayList;
import java.util.List;

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
        Device device = model.device();
        return Scope.run(() -> Mode.inference(() -> Recorder.with(Recorder.NONE, () -> {
            List<Tensor> results = new ArrayList<>();
            for (Batch batch : data.epoch(0)) {
                if (batch.size() > 0) {
                    results.add(Scope.run(() -> Precision.current().forward(model, batch.input().to(device))
                            .to(Device.cpu()).copy()));
                }
            }
            if (results.isEmpty()) {
                throw TensorException.argument("predictions", "there is no example to compute", "check the data set");
            }
            return Tensor.concat(0, results.toArray(Tensor[]::new));
        })));
    }

    /**
     * Returns the results for all rows of {@code inputs [N, ..]} at once, in the current scope on the model's device.
     */
    public static Tensor of(Layer model, Tensor inputs) {
        return Scope.run(() -> Mode.inference(() -> Recorder.with(Recorder.NONE,
                () -> Precision.current().forward(model, inputs.to(model.device())))));
    }
}
