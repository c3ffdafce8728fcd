package dev.starling.nn.checkpoint;

import dev.starling.tensor.DType;
import dev.starling.tensor.Shape;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * The header of a safetensors file.
 *
 * @param metadata texts
 * @param entries tensors by name
 */
record SafeTensorsHeader(Map<String, String> metadata, Map<String, Entry> entries) {
    private static final String METADATA = "__metadata__";
    private static final long MAX_BYTES = Long.MAX_VALUE >> 4;

    /**
     * The location of a tensor.
     *
     * @param dtype element type
     * @param shape its shape
     * @param begin offset of the first byte, counted from the end of the header
     * @param end offset after the last byte
     */
    record Entry(DType dtype, Shape shape, long begin, long end) { }

    /**
     * Parses a header that may be hostile. The returned entries cover the data without gap or overlap.
     *
     * @param dataBytes number of bytes after the header
     */
    static SafeTensorsHeader parse(String json, long dataBytes) throws Json.JsonException {
        Map<String, String> metadata = new LinkedHashMap<>();
        Map<String, Entry> entries = new LinkedHashMap<>();
        for (Map.Entry<String, Object> member : Json.object(json).entrySet()) {
            if (!(member.getValue() instanceof Map<?, ?> fields)) {
                throw new Json.JsonException("\"" + member.getKey() + "\" is not an object");
            }
            if (!member.getKey().equals(METADATA)) {
                entries.put(member.getKey(), entry(member.getKey(), fields, dataBytes));
                continue;
            }
            for (Map.Entry<?, ?> text : fields.entrySet()) {
                if (!(text.getValue() instanceof String value)) {
                    throw new Json.JsonException("metadata \"" + text.getKey() + "\" is not a string");
                }
                metadata.put((String) text.getKey(), value);
            }
        }
        requireDense(entries, dataBytes);
        return new SafeTensorsHeader(Collections.unmodifiableMap(metadata), Collections.unmodifiableMap(entries));
    }

    private static Entry entry(String name, Map<?, ?> fields, long dataBytes) throws Json.JsonException {
        if (fields.size() != 3 || !(fields.get("dtype") instanceof String type)
                || !(fields.get("shape") instanceof List<?> dims)
                || !(fields.get("data_offsets") instanceof List<?> offsets) || offsets.size() != 2
                || !(offsets.get(0) instanceof Long begin) || !(offsets.get(1) instanceof Long end)) {
            throw new Json.JsonException("tensor \"" + name + "\" must have exactly dtype, shape and two data_offsets");
        }
        DType dtype = null;
        for (DType known : DType.values()) {
            dtype = label(known).equals(type) ? known : dtype;
        }
        if (dtype == null) {
            throw new Json.JsonException("tensor \"" + name + "\" has the type \"" + type + "\", but only "
                    + Stream.of(DType.values()).map(SafeTensorsHeader::label).collect(Collectors.joining(", "))
                    + " can be read");
        }
        long[] sizes = new long[dims.size()];
        long bytes = dtype.bytes();
        if (sizes.length > Shape.MAX_RANK) {
            throw new Json.JsonException("tensor \"" + name + "\" has more than " + Shape.MAX_RANK + " dimensions");
        }
        for (int i = 0; i < sizes.length; i++) {
            if (!(dims.get(i) instanceof Long size)) {
                throw new Json.JsonException("tensor \"" + name + "\" has a size that is not a number");
            }
            sizes[i] = size;
            // A well-formed file has no sizes of which tensors refuse the product, even if another size is 0.
            if (size > MAX_BYTES / bytes) {
                throw new Json.JsonException("tensor \"" + name + "\" is too large: " + dims);
            }
            bytes *= Math.max(1, size);
        }
        Shape shape = Shape.of(sizes);
        if (begin > end || end > dataBytes || end - begin != shape.count() * dtype.bytes()) {
            throw new Json.JsonException("tensor \"" + name + "\" has the offsets " + offsets + " in " + dataBytes
                    + " bytes of data but needs " + shape.count() * dtype.bytes());
        }
        return new Entry(dtype, shape, begin, end);
    }

    private static void requireDense(Map<String, Entry> entries, long dataBytes) throws Json.JsonException {
        List<Entry> inOrder = new ArrayList<>(entries.values());
        inOrder.sort((a, b) -> a.begin != b.begin ? Long.compare(a.begin, b.begin) : Long.compare(a.end, b.end));
        long end = 0;
        for (Entry e : inOrder) {
            if (e.begin != end) {
                throw new Json.JsonException("tensors overlap or leave a gap at byte " + Math.min(end, e.begin));
            }
            end = e.end;
        }
        if (end != dataBytes) {
            throw new Json.JsonException((dataBytes - end) + " bytes do not belong to any tensor");
        }
    }

    /** Refuses the name of a tensor that a file cannot contain. */
    static void requireName(String name) {
        if (name.equals(METADATA) || !StandardCharsets.UTF_8.newEncoder().canEncode(name)) {
            throw CheckpointException.inMemory("a file cannot contain a tensor of the name " + Json.quoted(name)
                    + ", which " + (name.equals(METADATA) ? "the format reserves" : "is not valid Unicode"),
                    "give the layer or parameter another name in visit()", null);
        }
    }

    /** Returns the header as JSON, without the length in front of it and without padding. */
    String toJson() {
        StringBuilder json = new StringBuilder("{");
        if (!metadata.isEmpty()) {
            StringBuilder texts = new StringBuilder();
            metadata.forEach((key, value) -> texts.append(texts.isEmpty() ? "" : ",").append(Json.quoted(key))
                    .append(':').append(Json.quoted(value)));
            json.append('"').append(METADATA).append("\":{").append(texts).append('}');
        }
        entries.forEach((name, e) -> json.append(json.length() == 1 ? "" : ",").append(Json.quoted(name))
                .append(":{\"dtype\":\"").append(label(e.dtype)).append("\",\"shape\":")
                .append(e.shape.toString().replace(" ", "")).append(",\"data_offsets\":[").append(e.begin).append(',')
                .append(e.end).append("]}"));
        return json.append('}').toString();
    }

    private static String label(DType dtype) {
        return dtype.toString().toUpperCase(Locale.ROOT);
    }
}
