package dev.starling.nn.data;

import dev.starling.tensor.Device;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import java.lang.foreign.MemorySegment;
import java.util.Arrays;
import java.util.List;
import java.util.random.RandomGenerator;

/**
 * Examples of a data set, changed by a function of tensors on the loader's threads.
 *
 * <pre>{@code
 * Dataset noisy = MapDataset.of(data, data.fields(), (example, random) -> new Tensor[] {
 *     example[0].add(random.nextGaussian() / 10), example[1]});
 * }</pre>
 */
public final class MapDataset implements Dataset {
    /** Separates these random numbers from others that are drawn with the same seed. */
    private static final long STREAM = 0x4d61704461746121L;

    private final Dataset dataset;
    private final List<Field> fields;
    private final Mapping mapping;
    private final ThreadLocal<ScratchExample> scratch;

    /** Changes an example. Several threads call it concurrently. */
    @FunctionalInterface
    public interface Mapping {
        /**
         * Returns the fields of the changed example, whose tensors may be those of {@code example}.
         *
         * @param example its fields, on the CPU; they are freed, as is all that the mapping makes, when it has returned
         * @param random depends only on the seed, the epoch and the index; all random decisions must come from it. If
         *     the examples are mapped already, it gives other numbers than the other mapping had
         * @throws Exception if the example cannot be changed; the reader of the batch gets it as a
         *     {@link LoadException}
         */
        Tensor[] map(Tensor[] example, RandomGenerator random) throws Exception;
    }

    private MapDataset(Dataset dataset, List<Field> fields, Mapping mapping) {
        Lengths.requireFixed("map", dataset);
        this.dataset = dataset;
        this.fields = List.copyOf(fields);
        this.mapping = mapping;
        List<Field> inner = dataset.fields();
        scratch = ThreadLocal.withInitial(() -> new ScratchExample(inner));
    }

    /**
     * Returns changed examples.
     *
     * @param fields of a changed example: the model's input first, the target last
     */
    public static MapDataset of(Dataset dataset, List<Field> fields, Mapping mapping) {
        return new MapDataset(dataset, fields, mapping);
    }

    @Override
    public int size() {
        return dataset.size();
    }

    @Override
    public List<Field> fields() {
        return fields;
    }

    @Override
    public boolean isSequential() {
        return dataset.isSequential();
    }

    @Override
    public void write(int index, Example target) throws Exception {
        ScratchExample read = scratch.get().read(dataset, index, target);
        List<Field> inner = dataset.fields();
        try (Scope scope = Scope.open("map")) {
            Tensor[] example = new Tensor[inner.size()];
            Arrays.setAll(example, i -> Tensor.wrap(read.segment(i), inner.get(i).dtype(), inner.get(i).shape()
                    .dims()));
            // A mapping of mapped examples must not draw the numbers that the other mapping has drawn.
            long seed = target.seed() ^ (STREAM + target.depth());
            Tensor[] mapped = mapping.map(example, ExampleRandom.of(seed, target.epoch(), index));
            if (mapped.length != fields.size()) {
                throw TensorException.argument("map", "the mapping must return " + fields.size() + " fields, got "
                        + mapped.length, "return a tensor for each field");
            }
            for (int i = 0; i < mapped.length; i++) {
                Tensor each = mapped[i].to(Device.cpu()).contiguous();
                Field field = fields.get(i);
                if (each.dtype() != field.dtype() || !each.shape().equals(field.shape())) {
                    throw TensorException.argument("map", "field " + i + " must be " + field.dtype() + field.shape()
                            + ", got " + each.spec(), "convert it in the mapping, or correct the fields");
                }
                MemorySegment.copy(each.readOnlySegment(), 0, target.segment(i), target.offset(i), field.bytes());
            }
        }
    }
}
