package dev.starling.jmh;

import dev.starling.jmh.pytorch.Torch;
import dev.starling.nn.Layer;
import dev.starling.nn.Parameter;
import dev.starling.tensor.DType;
import dev.starling.tensor.Generator;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.Function;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.TensorOptional;

/**
 * A layer and the same function of libtorch's tensors.
 *
 * @param row what makes the layer, as {@code docs/nn.md} lists it
 * @param name what is special
 * @param ours makes the layer
 * @param theirs the function
 * @param input what the layer reads
 * @param training whether it runs in training mode
 * @param shapes shapes of inputs
 */
record LayerCase(String row, String name, Function<Generator, Layer> ours, TorchFunction theirs, Input input,
        boolean training, long[]... shapes) {
    /** What a layer reads. */
    enum Input {
        /** Normal numbers. */
        NUMBERS,
        /** Normal numbers, and also the corners of elementwise functions. */
        CORNERS,
        /** Indices from 0 to 4. */
        INDICES
    }

    /** A function of libtorch's tensors. */
    interface TorchFunction {
        Tensor of(Tensor x, Weights w);
    }

    /** Copies of a layer's parameters and buffers. */
    record Weights(Map<String, Tensor> byPath) {
        static Weights of(Layer layer) {
            Map<String, Parameter> trained = layer.parameters();
            Map<String, Tensor> all = new TreeMap<>();
            layer.state().forEach((path, p) -> all.put(path, Torch.tensor(p.master().toDoubles(),
                    p.shape().dims()).set_requires_grad(trained.containsKey(path))));
            return new Weights(all);
        }

        Tensor of(String path) {
            Tensor found = byPath.get(path);
            if (found == null) {
                throw new AssertionError(path + " is none of " + byPath.keySet());
            }
            return found;
        }

        /** Returns a weight, or none if the layer has none. */
        TensorOptional optional(String path) {
            return byPath.containsKey(path) ? new TensorOptional(of(path)) : new TensorOptional();
        }

        /** Returns the weights whose paths begin with a prefix, without it. */
        Weights within(String prefix) {
            Map<String, Tensor> some = new TreeMap<>();
            byPath.forEach((path, w) -> {
                if (path.startsWith(prefix)) {
                    some.put(path.substring(prefix.length()), w);
                }
            });
            return new Weights(some);
        }
    }

    /** Returns our input of a shape. */
    dev.starling.tensor.Tensor input(DType type, long... shape) {
        float[] values = Inputs.normal(3, shape);
        if (input == Input.INDICES) {
            long[] indices = new long[values.length];
            for (int i = 0; i < indices.length; i++) {
                indices[i] = Math.floorMod((long) (values[i] * 1000), 5L);
            }
            return dev.starling.tensor.Tensor.of(indices, shape);
        }
        return dev.starling.tensor.Tensor.of(values, shape).to(type);
    }

    @Override
    public String toString() {
        return row + " " + name;
    }
}
