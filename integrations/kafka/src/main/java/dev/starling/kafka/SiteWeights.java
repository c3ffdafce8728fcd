package dev.starling.kafka;

import dev.starling.nn.Parameter;
import dev.starling.nn.checkpoint.SafeTensors;
import dev.starling.nn.train.Collective;
import dev.starling.nn.train.DistributionStrategy;
import dev.starling.nn.train.TrainingState;
import dev.starling.tensor.DType;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Update;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;

/** A model's floating-point tensors, by path: the content of an update between sites. */
final class SiteWeights {
    private static final String MODEL = "model.";
    /** Upper bound of a file's header, and of its entry for one tensor without the name. */
    private static final int HEADER_BYTES = 1024;

    private final Map<String, Parameter> tensors = new LinkedHashMap<>();

    SiteWeights(TrainingState state) {
        state.tensors().forEach((path, tensor) -> {
            if (path.startsWith(MODEL) && tensor.master().dtype().isFloating()) {
                tensors.put(path.substring(MODEL.length()), tensor);
            }
        });
    }

    /** Returns the tensors themselves, not copies. */
    Map<String, Parameter> whole() {
        return tensors;
    }

    /** Returns copies in bf16, which the caller closes. */
    Map<String, Parameter> halves() {
        Map<String, Parameter> halves = new LinkedHashMap<>();
        try (Scope scope = Scope.open("halves")) {
            tensors.forEach((path, tensor) -> halves.put(path, Parameter.buffer(tensor.master().to(DType.BF16))));
        }
        return halves;
    }

    /** Returns an upper bound of the size in bytes of a safetensors file of these tensors, for any element type. */
    long maxBytes() {
        long bytes = HEADER_BYTES;
        for (Map.Entry<String, Parameter> tensor : tensors.entrySet()) {
            bytes += tensor.getValue().shape().count() * Double.BYTES + 6L * tensor.getKey().length() + HEADER_BYTES;
        }
        return bytes;
    }

    /** Throws unless the tensors are floating and finite and have the model's names and shapes. */
    void check(SafeTensors received) {
        if (!received.names().equals(tensors.keySet())) {
            throw new StreamException("the model has the tensors " + tensors.keySet() + ", the site sends "
                    + received.names());
        }
        tensors.forEach((path, tensor) -> {
            if (!received.spec(path).shape().equals(tensor.shape())) {
                throw new StreamException("the model has " + path + " as " + tensor.shape() + ", the site sends "
                        + received.spec(path).shape());
            }
            if (!received.spec(path).dtype().isFloating()) {
                throw new StreamException(path + " must be floating, the site sends " + received.spec(path).dtype());
            }
            try (Scope scope = Scope.open("check")) {
                // As the model would hold them: finite numbers of a wider type may be infinite there.
                Tensor elements = received.tensor(path).to(tensor.master().dtype());
                if (!elements.device().backend().isFinite(elements)) {
                    throw new StreamException(path + " is not finite");
                }
            }
        });
    }

    /** Mixes in weights that were checked before; the share {@code own} of the result is the model's own weights. */
    void mix(SafeTensors received, double own) {
        tensors.forEach((path, tensor) -> {
            if (own > 0 && !tensor.isBuffer() && !tensor.requiresGradient()) {
                return;
            }
            try (Scope scope = Scope.open("mix")) {
                Tensor weights = tensor.master();
                Tensor theirs = received.tensor(path).to(weights.device()).to(weights.dtype());
                Tensor.apply(own == 0 ? new Update.Assign() : new Update.Blend(own, 1 - own), weights, theirs);
            }
        });
    }

    /**
     * Broadcasts the weights of rank 0 to all ranks of a synchronous strategy, as a sum with the zeros of the others.
     * Returns early if a rank is lost meanwhile: an elastic strategy has then synchronised the remaining ranks itself.
     */
    void spread(DistributionStrategy strategy) {
        int world = strategy.world();
        for (Parameter tensor : tensors.values()) {
            try (Scope scope = Scope.open("spread")) {
                Tensor weights = tensor.master();
                int count = Math.toIntExact(weights.count());
                double[] values = strategy.rank() == 0 ? Arrays.copyOf(weights.toDoubles(), count + 1)
                        : new double[count + 1];
                // Sums to the number of ranks if the sum is complete: otherwise zeros would become weights.
                values[count] = 1;
                Collective.of(strategy).sum(values);
                if (values[count] != world) {
                    return;
                }
                tensor.set(Tensor.of(Arrays.copyOf(values, count), weights.shape().dims()).to(weights.dtype()));
            }
        }
    }
}
