package dev.starling.jmh.pytorch;

import dev.starling.jmh.Update;
import java.util.List;
import org.bytedeco.javacpp.Pointer;
import org.bytedeco.javacpp.PointerScope;
import org.bytedeco.pytorch.NoGradGuard;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/**
 * A PyTorch network with its optimiser, corresponding to one of Starling's models.
 *
 * <p>Parameters are numbered in the order in which the network uses them, weight before bias, as in PyTorch's own
 * {@code parameters()}: {@code [out, in]} for linear layers, {@code [out, in, height, width]} for convolutions. In a
 * residual block the two convolutions with their batch norms come first, the projection of the shortcut last. All
 * arrays are row-major in any layout. Not thread-safe: only the thread that makes a model may use it.
 */
public final class TorchModel implements AutoCloseable {
    private final List<Pointer> owned;
    private final List<Tensor> parameters;
    private final List<Tensor> statistics;
    private final Layer network;
    private final TorchUpdate update;
    private final Layout layout;

    TorchModel(LayerBuilder layers, Layer network, Update update, double rate) {
        this.owned = layers.owned();
        this.parameters = layers.parameters();
        this.statistics = layers.statistics();
        this.network = network;
        this.layout = layers.layout();
        this.update = new TorchUpdate(layers, update, rate);
    }

    /**
     * Converts a batch to the network's layout, so that a step does not have to. The innermost {@code PointerScope}
     * owns the result.
     */
    public Tensor prepare(Tensor batch) {
        return layout.apply(batch);
    }

    /**
     * Runs one training step: forward, mean cross-entropy, backward, update. Gradients stay readable until
     * the next step.
     *
     * @param batch input {@code [N, ...]}
     * @param labels class numbers {@code [N]}, i64
     * @return the loss before the update
     */
    public float step(Tensor batch, Tensor labels) {
        try (PointerScope step = new PointerScope()) {
            Tensor loss = torch.cross_entropy_loss(network.apply(batch), labels);
            update.clear();
            loss.backward();
            update.step();
            return loss.item_float();
        }
    }

    /** Computes the network's results without recording for a backward pass. */
    Tensor predict(Tensor batch) {
        try (NoGradGuard inference = new NoGradGuard()) {
            return network.apply(batch);
        }
    }

    /** Returns copies of all parameters. */
    public List<float[]> parameters() {
        try (PointerScope copies = new PointerScope()) {
            return parameters.stream().map(Torch::floats).toList();
        }
    }

    /** Sets all parameters from arrays in the order of {@link #parameters()}. */
    public void parameters(List<float[]> values) {
        if (values.size() != parameters.size()) {
            throw new IllegalArgumentException(
                "the network has " + parameters.size() + " parameters, got " + values.size() + " arrays");
        }
        for (int i = 0; i < values.size(); i++) {
            try (PointerScope copies = new PointerScope()) {
                Tensor parameter = parameters.get(i);
                parameter.detach().copy_(Torch.tensor(values.get(i), parameter.sizes().vec().get()));
            }
        }
    }

    /** Returns copies of the last step's gradients, one array for each parameter. */
    public List<float[]> gradients() {
        try (PointerScope copies = new PointerScope()) {
            return parameters.stream().map(parameter -> Torch.floats(parameter.grad())).toList();
        }
    }

    /** Returns copies of the running statistics of the batch norms: for each the mean, then the variance. */
    public List<float[]> statistics() {
        try (PointerScope copies = new PointerScope()) {
            return statistics.stream().map(Torch::floats).toList();
        }
    }

    @Override
    public void close() {
        owned.forEach(Pointer::releaseReference);
    }

    /** The memory layout of four-dimensional tensors. */
    public enum Layout {
        /** Channels before height and width, as in the shape. */
        CONTIGUOUS(torch.MemoryFormat.Contiguous),
        /** Channels innermost, which oneDNN's convolutions in PyTorch prefer. */
        CHANNELS_LAST(torch.MemoryFormat.ChannelsLast);

        private final torch.MemoryFormat format;

        Layout(torch.MemoryFormat format) {
            this.format = format;
        }

        Tensor apply(Tensor tensor) {
            return tensor.dim() == 4 ? tensor.contiguous(format) : tensor;
        }
    }

    /** A function of one tensor, which it may change and return, and which the caller closes. */
    @FunctionalInterface
    interface Layer {
        Tensor apply(Tensor input);

        /** Closes the intermediate result immediately, so that PyTorch can reuse its memory within the step. */
        default Layer then(Layer next) {
            return input -> {
                Tensor between = apply(input);
                Tensor output = next.apply(between);
                if (output != between && between != input) {
                    between.close();
                }
                return output;
            };
        }
    }
}
