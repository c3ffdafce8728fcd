package dev.starling.nn.preprocess;

import dev.starling.nn.Layer;
import dev.starling.nn.Parameter;
import dev.starling.tensor.DType;
import dev.starling.tensor.Device;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import java.io.ByteArrayOutputStream;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * Texts with an index each, kept in two buffers: {@code text}, the UTF-8 bytes of all texts one after the other, and
 * {@code ends}, where each ends. The sizes of these buffers follow the texts.
 */
final class Vocabulary {
    /** The index of what is missing, or of padding. */
    static final int MISSING = 0;
    /** The index of a text that is not in the vocabulary. */
    static final int UNKNOWN = 1;
    /** The index of the first text. */
    static final int FIRST = 2;

    private final Parameter text;
    private final Parameter ends;
    /** The decoded buffers, or {@code null} before their first use. */
    private volatile @Nullable Decoded decoded;

    /**
     * The contents of the buffers.
     *
     * @param source of {@code ends}, when it was decoded
     * @param version of that tensor's memory
     * @param texts in the order of their indices
     * @param indexOf the inverse of {@code texts}
     */
    private record Decoded(Tensor source, int version, List<String> texts, Map<String, Integer> indexOf) { }

    Vocabulary() {
        try (Scope scope = Scope.open("vocabulary")) {
            text = Parameter.resizable(bytes(new byte[0]));
            ends = Parameter.resizable(Tensor.of(new long[0]));
        }
    }

    private static Tensor bytes(byte[] bytes) {
        return Tensor.copyOf(MemorySegment.ofArray(bytes), DType.U8, bytes.length);
    }

    void visit(Layer.Visitor visitor) {
        visit(visitor, "");
    }

    void visit(Layer.Visitor visitor, String prefix) {
        visitor.parameter(prefix + "text", text);
        visitor.parameter(prefix + "ends", ends);
    }

    /**
     * Prepares to replace the texts by the most frequent ones of {@code counts}; of equally frequent ones by the first
     * sorted.
     *
     * @throws TensorException if there are none
     */
    Runnable adapted(Map<String, Long> counts, int limit) {
        if (counts.isEmpty()) {
            throw TensorException.argument("vocabulary", "the training data must have a text, got none",
                    "adapt it to the data that the model is trained on");
        }
        return changed(counts.entrySet().stream().sorted(Map.Entry.<String, Long>comparingByValue(
                Comparator.reverseOrder()).thenComparing(Map.Entry.comparingByKey())).limit(limit)
                .map(Map.Entry::getKey).toList());
    }

    /** Prepares to replace the texts. */
    Runnable changed(List<String> texts) {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        long[] until = new long[texts.size()];
        for (int i = 0; i < until.length; i++) {
            if (!StandardCharsets.UTF_8.newEncoder().canEncode(texts.get(i))) {
                throw TensorException.argument("vocabulary", "the text \"" + new String(texts.get(i).getBytes(
                        StandardCharsets.UTF_8), StandardCharsets.UTF_8) + "\" is not valid Unicode: it has half of a "
                        + "surrogate pair", "correct the program that divides or decodes the texts");
            }
            bytes.writeBytes(texts.get(i).getBytes(StandardCharsets.UTF_8));
            until[i] = bytes.size();
        }
        return () -> {
            try (Scope scope = Scope.open("vocabulary")) {
                text.set(bytes(bytes.toByteArray()));
                ends.set(Tensor.of(until));
            }
        };
    }

    /** Requires texts, without which each would be unknown. */
    void requireAdapted(String owner) {
        if (texts().isEmpty()) {
            throw TensorException.argument(owner, "it must have a vocabulary of training data, got none",
                    "call adapt(..), or load the model first");
        }
    }

    /** Returns whether the texts can be read where a layer runs. */
    boolean hostVisible() {
        return ends.master().device().backend().hostVisible();
    }

    /** Returns the texts in the order of their indices. */
    List<String> texts() {
        return decode().texts;
    }

    /** Returns the place of a text among the texts, or -1. */
    int place(String of) {
        return decode().indexOf.getOrDefault(of, -1);
    }

    private Decoded decode() {
        Decoded current = decoded;
        Tensor source = ends.master();
        int version = source.storage().version();
        if (current != null && current.source == source && current.version == version) {
            return current;
        }
        try (Scope scope = Scope.open("vocabulary")) {
            byte[] bytes = text.master().to(Device.cpu()).contiguous().readOnlySegment()
                    .toArray(ValueLayout.JAVA_BYTE);
            List<String> texts = new ArrayList<>();
            Map<String, Integer> indexOf = new HashMap<>();
            int from = 0;
            for (long end : source.toLongs()) {
                if (end < from || end > bytes.length) {
                    throw TensorException.argument("vocabulary", "the buffer \"ends\" must ascend to " + bytes.length
                            + ", the size of \"text\", got " + end + " after " + from,
                            "load both from one intact file");
                }
                String each = new String(bytes, from, (int) end - from, StandardCharsets.UTF_8);
                indexOf.putIfAbsent(each, texts.size());
                texts.add(each);
                from = (int) end;
            }
            current = new Decoded(source, version, List.copyOf(texts), Map.copyOf(indexOf));
        }
        decoded = current;
        return current;
    }
}
