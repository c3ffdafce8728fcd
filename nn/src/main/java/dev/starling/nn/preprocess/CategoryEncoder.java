package dev.starling.nn.preprocess;

import dev.starling.nn.Layer;
import dev.starling.nn.Precision;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * Encodes categories: texts as indices, outside of the model because tensors hold no texts, and indices as one-hot
 * vectors, as a layer: {@code [..]} to {@code [.., size]}. Index 0 is a missing value, 1 a text that is not in the
 * vocabulary, from 2 on the texts by descending frequency. The vocabulary is adapted to the training data and saved
 * with the model.
 *
 * <p>Not safe for use while it is adapted or loaded; otherwise any number of threads may use it.
 */
public final class CategoryEncoder implements Layer {
    private final int size;
    private final Vocabulary vocabulary = new Vocabulary();

    private CategoryEncoder(int size) {
        if (size <= Vocabulary.FIRST) {
            throw TensorException.argument("category encoder", "the size must be above 2, got " + size,
                    "add 2 to the number of texts that need an index of their own: for missing and for other values");
        }
        this.size = size;
    }

    /**
     * Returns an encoder without texts.
     *
     * @param size number of indices; {@code size - 2} texts have one of their own
     */
    public static CategoryEncoder of(int size) {
        return new CategoryEncoder(size);
    }

    /**
     * Replaces the vocabulary by the most frequent texts of the training data. {@code null} is a missing value.
     *
     * @throws TensorException if there is no text, or one is not valid Unicode; the vocabulary stays as it was
     */
    public CategoryEncoder adapt(Iterable<? extends @Nullable String> texts) {
        adapted(texts).run();
        return this;
    }

    Runnable adapted(Iterable<? extends @Nullable String> texts) {
        Map<String, Long> counts = new HashMap<>();
        for (String text : texts) {
            if (text != null) {
                counts.merge(text, 1L, Long::sum);
            }
        }
        return vocabulary.adapted(counts, size - Vocabulary.FIRST);
    }

    /**
     * Returns the index of a text; {@code null} is a missing value.
     *
     * @throws TensorException if the encoder is neither adapted nor loaded, or a vocabulary was loaded that has more
     *     texts than there are indices
     */
    public int index(@Nullable String text) {
        vocabulary.requireAdapted("category encoder");
        return place(text);
    }

    /** Returns the index of a text; without a vocabulary each is unknown. */
    int place(@Nullable String text) {
        int place = text == null ? -1 : vocabulary.place(text);
        if (place >= size - Vocabulary.FIRST) {
            throw TensorException.argument("category encoder", "the vocabulary has " + vocabulary.texts().size()
                    + " texts, but of " + size + " indices only " + (size - Vocabulary.FIRST) + " are for texts",
                    "build the encoder with the size of that whose vocabulary was loaded");
        }
        return text == null ? Vocabulary.MISSING : place < 0 ? Vocabulary.UNKNOWN : place + Vocabulary.FIRST;
    }

    /** Returns the texts from index 2 on. */
    public List<String> vocabulary() {
        return vocabulary.texts();
    }

    /** Returns the number of indices. */
    public int size() {
        return size;
    }

    /**
     * Returns one-hot vectors of indices, integers or floating numbers. A number that is no index, such as -1, 1.5, NaN
     * or {@link #size}, has a vector of zeros: a check would make each forward pass wait for the device.
     *
     * @throws TensorException if 16-bit floating numbers cannot represent all indices
     */
    @Override
    public Tensor forward(Tensor x) {
        int exact = switch (x.dtype()) {
            case BF16 -> 1 << 8;
            case F16 -> 1 << 11;
            case F32, F64, I64, I32, I8, U8, BOOL -> Integer.MAX_VALUE;
        };
        if (size - 1 > exact) {
            throw new TensorException(TensorException.Problem.DTYPE, "category encoder", List.of(x.spec()),
                    "indices up to " + (size - 1) + " are rounded in " + x.dtype() + " above " + exact,
                    "pass integers, or train in f32");
        }
        return x.oneHot(size).to(Precision.current().type());
    }

    @Override
    public void visit(Visitor visitor) {
        vocabulary.visit(visitor);
    }

    @Override
    public String settings() {
        return Integer.toString(size);
    }

    @Override
    public String toString() {
        return tree();
    }
}
