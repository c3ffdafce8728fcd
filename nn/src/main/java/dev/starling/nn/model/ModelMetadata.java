package dev.starling.nn.model;

import dev.starling.nn.checkpoint.Json;
import dev.starling.nn.data.Field;
import dev.starling.tensor.DType;
import dev.starling.tensor.Shape;
import dev.starling.tensor.TensorException;
import java.util.Arrays;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * What a {@link ModelFile} says about its model. Everything is optional; each method returns a changed copy:
 *
 * <pre>{@code
 * ModelMetadata metadata = ModelMetadata.none().version("2.1").classes("cat", "dog")
 *         .inputs(Field.of(DType.F32, 3, 32, 32)).metrics(scores.metrics()).note("trained by", "team A");
 * }</pre>
 *
 * @param version the caller's version of the model; empty for none
 * @param classes names of the classes by index; empty for none
 * @param inputs what one example consists of, without the dimension of the batch; empty if not stated
 * @param metrics measured numbers by name
 * @param notes any texts by name
 * @param description how the model is built, for programs that do not know its class; empty if not stated
 */
public record ModelMetadata(String version, List<String> classes, List<Field> inputs, Map<String, Double> metrics,
        Map<String, String> notes, Optional<ModelDescription> description) {
    private static final String VERSION = "model.version";
    private static final String CLASSES = "model.classes";
    private static final String INPUTS = "model.inputs";
    private static final String METRIC = "model.metric.";
    private static final String NOTE = "model.note.";
    private static final Pattern FIELD = Pattern.compile(
            "(?:(.*): )?([a-z]+\\d*)\\[([\\d, ]*)](?: (padded|mask) (\\S+))?", Pattern.DOTALL);

    /** Copies lists and maps. */
    public ModelMetadata {
        classes = List.copyOf(classes);
        inputs = List.copyOf(inputs);
        metrics = Collections.unmodifiableMap(new LinkedHashMap<>(metrics));
        notes = Collections.unmodifiableMap(new LinkedHashMap<>(notes));
    }

    /** Returns metadata that state nothing. */
    public static ModelMetadata none() {
        return new ModelMetadata("", List.of(), List.of(), Map.of(), Map.of(), Optional.empty());
    }

    /** Returns these metadata with a version. */
    public ModelMetadata version(String text) {
        return new ModelMetadata(text, classes, inputs, metrics, notes, description);
    }

    /** Returns these metadata with the names of the classes, by index. */
    public ModelMetadata classes(String... names) {
        return new ModelMetadata(version, List.of(names), inputs, metrics, notes, description);
    }

    /** Returns these metadata with the fields of an example that the model's forward pass takes. */
    public ModelMetadata inputs(Field... fields) {
        return new ModelMetadata(version, classes, List.of(fields), metrics, notes, description);
    }

    /** Returns these metadata with one more metric. */
    public ModelMetadata metric(String name, double value) {
        return metrics(Map.of(name, value));
    }

    /** Returns these metadata with more metrics by name. */
    public ModelMetadata metrics(Map<String, Double> more) {
        Map<String, Double> all = new LinkedHashMap<>(metrics);
        all.putAll(more);
        return new ModelMetadata(version, classes, inputs, all, notes, description);
    }

    /** Returns these metadata with one more note. */
    public ModelMetadata note(String name, String text) {
        Map<String, String> all = new LinkedHashMap<>(notes);
        all.put(name, text);
        return new ModelMetadata(version, classes, inputs, metrics, all, description);
    }

    /** Returns these metadata with a description, from which {@link ModelDescription#load} builds the model. */
    public ModelMetadata description(ModelDescription how) {
        return new ModelMetadata(version, classes, inputs, metrics, notes, Optional.of(how));
    }

    // ---- as texts of a file ----

    /** Returns these metadata as texts of a safetensors file. */
    Map<String, String> texts() {
        Map<String, String> texts = new LinkedHashMap<>();
        description.ifPresent(how -> texts.putAll(how.metadata()));
        if (!version.isEmpty()) {
            texts.put(VERSION, version);
        }
        if (!classes.isEmpty()) {
            texts.put(CLASSES, list(classes.stream()));
        }
        if (!inputs.isEmpty()) {
            texts.put(INPUTS, list(inputs.stream().map(each -> (each.name().isEmpty() ? "" : each.name() + ": ")
                    + each.dtype() + each.shape() + (each.length() == Field.Length.FIXED ? ""
                    : " " + each.length().name().toLowerCase(Locale.ROOT) + " " + each.padding()))));
        }
        metrics.forEach((name, value) -> texts.put(METRIC + name, Double.toString(value)));
        notes.forEach((name, text) -> texts.put(NOTE + name, text));
        return texts;
    }

    /** Returns the metadata of which {@link #texts} were made. Ignores other texts. */
    static ModelMetadata of(Map<String, String> texts) {
        ModelMetadata read = none().version(texts.getOrDefault(VERSION, ""))
                .classes(list(texts.getOrDefault(CLASSES, "[]")))
                .inputs(Arrays.stream(list(texts.getOrDefault(INPUTS, "[]"))).map(ModelMetadata::field)
                        .toArray(Field[]::new));
        for (Map.Entry<String, String> each : texts.entrySet()) {
            String name = each.getKey();
            if (name.startsWith(METRIC)) {
                read = read.metric(name.substring(METRIC.length()), number(each.getValue()));
            } else if (name.startsWith(NOTE)) {
                read = read.note(name.substring(NOTE.length()), each.getValue());
            }
        }
        return ModelDescription.isIn(texts) ? read.description(ModelDescription.of(texts)) : read;
    }

    private static String list(Stream<String> texts) {
        return texts.map(Json::quoted).collect(Collectors.joining(",", "[", "]"));
    }

    private static String[] list(String json) {
        try {
            if (Json.object("{\"list\":" + json + "}").get("list") instanceof List<?> found) {
                return found.stream().map(String::valueOf).toArray(String[]::new);
            }
        } catch (Json.JsonException e) {
            throw malformed(json, "a list of texts");
        }
        throw malformed(json, "a list of texts");
    }

    private static double number(String text) {
        try {
            return Double.parseDouble(text);
        } catch (NumberFormatException e) {
            throw malformed(text, "a number");
        }
    }

    private static Field field(String text) {
        Matcher field = FIELD.matcher(text);
        if (!field.matches()) {
            throw malformed(text, "a type and a shape");
        }
        try {
            long[] shape = Stream.of(field.group(3).split(",")).map(String::strip).filter(size -> !size.isEmpty())
                    .mapToLong(Long::parseLong).toArray();
            String length = Objects.requireNonNullElse(field.group(4), "fixed").toUpperCase(Locale.ROOT);
            return new Field(Objects.requireNonNullElse(field.group(1), ""),
                    DType.valueOf(field.group(2).toUpperCase(Locale.ROOT)), Shape.of(shape),
                    Field.Length.valueOf(length), Double.parseDouble(Objects.requireNonNullElse(field.group(5), "0")));
        } catch (IllegalArgumentException e) {
            throw malformed(text, "a type and a shape");
        }
    }

    private static TensorException malformed(String text, String expected) {
        return TensorException.argument("model metadata", "expected " + expected + ", found " + text,
                "save the model with ModelFile");
    }
}
