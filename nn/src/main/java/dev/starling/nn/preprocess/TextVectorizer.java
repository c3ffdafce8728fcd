package dev.starling.nn.preprocess;

import dev.starling.nn.Layer;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.function.Function;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/**
 * Texts as indices of their tokens, {@code [N, length]} i64, padded with 0 or truncated at the end. Index 1 is a token
 * that is not in the vocabulary, from 2 on the tokens by descending frequency. As a layer it returns its input, so that
 * a model which begins with it, before an {@link dev.starling.nn.layer.Embedding} of {@code size} rows, saves the
 * vocabulary with its weights.
 *
 * <p>Not safe for use while it is adapted or loaded; otherwise any number of threads may use it.
 */
public final class TextVectorizer implements Layer {
    private static final int MAX_INDICES = 1 << 28;
    private static final Pattern BETWEEN_WORDS = Pattern.compile("[^\\p{L}\\p{M}\\p{N}]+");

    private final int size;
    private final int length;
    private final Function<String, List<String>> tokens;
    private final Vocabulary vocabulary = new Vocabulary();

    private TextVectorizer(int size, int length, Function<String, List<String>> tokens) {
        if (size <= Vocabulary.FIRST || length < 1) {
            throw TensorException.argument("text vectoriser", "the size must be above 2 and the length above 0, got "
                    + size + " and " + length, "add 2 to the number of tokens: for padding and for other tokens");
        }
        this.size = size;
        this.length = length;
        this.tokens = tokens;
    }

    /**
     * Returns a vectoriser of words: sequences of letters and digits, in lower case.
     *
     * @param size number of indices; {@code size - 2} words have one of their own
     * @param length number of words of a text
     */
    public static TextVectorizer of(int size, int length) {
        return of(size, length, TextVectorizer::words);
    }

    /**
     * Returns a vectoriser with tokens of a function.
     *
     * @param size number of indices; {@code size - 2} tokens have one of their own
     * @param length number of tokens of a text
     * @param tokens divides a text
     */
    public static TextVectorizer of(int size, int length, Function<String, List<String>> tokens) {
        return new TextVectorizer(size, length, tokens);
    }

    private static List<String> words(String text) {
        return BETWEEN_WORDS.splitAsStream(text.toLowerCase(Locale.ROOT)).filter(word -> !word.isEmpty())
                .collect(Collectors.toList());
    }

    /**
     * Replaces the vocabulary by the most frequent tokens of the training data.
     *
     * @throws TensorException if there is no token, or one is not valid Unicode, or a text is {@code null}; the
     *     vocabulary stays as it was
     */
    public TextVectorizer adapt(Iterable<String> texts) {
        Map<String, Long> counts = new HashMap<>();
        for (String text : texts) {
            tokens(text).forEach(token -> counts.merge(token, 1L, Long::sum));
        }
        vocabulary.adapted(counts, size - Vocabulary.FIRST).run();
        return this;
    }

    private List<String> tokens(@Nullable String text) {
        if (text == null) {
            throw TensorException.argument("text vectoriser", "a text is null", "leave it out, or use an empty text");
        }
        return tokens.apply(text);
    }

    /**
     * Returns the indices of texts, {@code [N, length]}, in the current scope.
     *
     * @throws TensorException if there are too many, one is {@code null}, the vectoriser is neither adapted nor loaded,
     *     or a vocabulary was loaded that has more tokens than there are indices
     */
    public Tensor tensor(List<String> texts) {
        vocabulary.requireAdapted("text vectoriser");
        int known = vocabulary.texts().size();
        if (known > size - Vocabulary.FIRST) {
            throw TensorException.argument("text vectoriser", "the vocabulary has " + known + " tokens, but of " + size
                    + " indices only " + (size - Vocabulary.FIRST) + " are for tokens",
                    "build the vectoriser with the size of that whose vocabulary was loaded");
        }
        long count = (long) texts.size() * length;
        if (count > MAX_INDICES) {
            throw TensorException.argument("text vectoriser", "there may be " + MAX_INDICES + " indices, got " + count,
                    "divide the texts, or use a smaller length");
        }
        long[] indices = new long[(int) count];
        for (int i = 0; i < texts.size(); i++) {
            List<String> each = tokens(texts.get(i));
            for (int k = 0; k < Math.min(length, each.size()); k++) {
                int place = vocabulary.place(each.get(k));
                indices[i * length + k] = place < 0 ? Vocabulary.UNKNOWN : place + Vocabulary.FIRST;
            }
        }
        return Tensor.of(indices, texts.size(), length);
    }

    /** Returns the tokens from index 2 on. */
    public List<String> vocabulary() {
        return vocabulary.texts();
    }

    /** Returns the number of indices, which is the number of rows of an embedding. */
    public int size() {
        return size;
    }

    /** Returns x. */
    @Override
    public Tensor forward(Tensor x) {
        return x;
    }

    @Override
    public void visit(Visitor visitor) {
        vocabulary.visit(visitor);
    }

    @Override
    public String settings() {
        return size + ", length=" + length;
    }

    @Override
    public String toString() {
        return tree();
    }
}
