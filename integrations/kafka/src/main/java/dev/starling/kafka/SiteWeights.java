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

/** A model's floating tensors, by path: what sites send each other. */
final class SiteWeights {
    private static final String MODEL = "model.";
    /** More than the header says of one tensor beside its name. */
    private static final int HEADER_BYTES = 1024;

    private final Map<String, Parameter> tensors = new LinkedHashMap<>();

    SiteWeights(TrainingState state) {
        state.tensors().forEach((path, tensor) -> {
            if (path.startsWith(MODEL) && tensor.master().dtype().isFloating()) {
                tensors.put(path.substring(MODEL.length()), tensor);
            }
        });
    }

    /** Returns the tensors, to be written. */
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

    /** Returns how many bytes a safetensors file of such tensors has at most, whatever their types. */
    long mostBytes() {
        long bytes = HEADER_BYTES;
        for (Map.Entry<String, Parameter> tensor : tensors.entrySet()) {
            bytes += tensor.getValue().shape().count() * Double.BYTES + 6L * tensor.getKey().length() + HEADER_BYTES;
        }
        return bytes;
    }

    /** Throws unless the tensors are floating and finite and have these names and shapes. */
    void check(SafeTensors heard) {
        if (!heard.names().equals(tensors.keySet())) {
            throw new StreamException("the model has the tensors " + tensors.keySet() + ", the site sends "
                    + heard.names());
        }
        tensors.forEach((path, tensor) -> {
            if (!heard.spec(path).shape().equals(tensor.shape())) {
                throw new StreamException("the model has " + path + " as " + tensor.shape() + ", the site sends "
                        + heard.spec(path).shape());
            }
            if (!heard.spec(path).dtype().isFloating()) {
                throw new StreamException(path + " must be floating, the site sends " + heard.spec(path).dtype());
            }
            try (Scope scope = Scope.open("check")) {
                Tensor elements = heard.tensor(path);
                if (!elements.device().backend().isFinite(elements)) {
                    throw new StreamException(path + " is not finite");
                }
            }
        });
    }

    /** Mixes weights in, which were checked: the model keeps the share {@code own} of its own. */
    void mix(SafeTensors heard, double own) {
        tensors.forEach((path, tensor) -> {
            if (own > 0 && !tensor.isBuffer() && !tensor.requiresGradient()) {
                return;
            }
            try (Scope scope = Scope.open("mix")) {
                Tensor weights = tensor.master();
                Tensor theirs = heard.tensor(path).to(weights.device()).to(weights.dtype());
                Tensor.apply(own == 0 ? new Update.Assign() : new Update.Blend(own, 1 - own), weights, theirs);
            }
        });
    }

    /**
     * Gives all ranks of a synchronous strategy the weights of rank 0: their sum with zeros of the others. Ends early
     * if a rank is lost during it: an elastic strategy has then made the states of the others alike by itself.
     */
    void spread(DistributionStrategy strategy) {
        int world = strategy.world();
        for (Parameter tensor : tensors.values()) {
            try (Scope scope = Scope.open("spread")) {
                Tensor weights = tensor.master();
                int count = Math.toIntExact(weights.count());
                double[] values = strategy.rank() == 0 ? Arrays.copyOf(weights.toDoubles(), count + 1)
                        : new double[count + 1];
                // Counts the ranks: zeros that were not added up must not become weights.
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
