package dev.starling.kafka;

import dev.starling.nn.checkpoint.Json;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.Map;

/**
 * An announcement on the topic of models: the location of a version's safetensors file, and its checksum. The key of
 * the record is the model's name, so that compaction keeps the latest; its value is this as JSON.
 *
 * @param name of the model
 * @param version from 0 to 10^18 - 1; the last announcement is served, whatever its number
 * @param uri path or {@code file:} URI of the safetensors file, or a location that the user's {@link ModelStore}
 *     understands
 * @param sha256 of the file, 64 hexadecimal digits
 */
public record ModelVersion(String name, long version, String uri, String sha256) {
    private static final long MAX_VERSION = 999_999_999_999_999_999L;
    private static final int MAX_BYTES = 256 * 1024;

    /** Checks the fields. */
    public ModelVersion {
        if (name.isBlank() || version < 0 || version > MAX_VERSION
                || uri.isBlank() || !sha256.matches("[0-9a-f]{64}")) {
            throw new StreamException("an announcement must have a name, a version from 0 to 10^18 - 1, a uri and "
                    + "a sha256 of 64 lower-case hexadecimal digits, got " + name + ", " + version + ", " + uri + ", "
                    + sha256);
        }
    }

    /** Returns the value of the announcement. */
    public byte[] toJson() {
        return ("{\"name\": " + Json.quoted(name) + ", \"version\": " + version + ", \"uri\": "
                + Json.quoted(uri) + ", \"sha256\": \"" + sha256 + "\"}").getBytes(StandardCharsets.UTF_8);
    }

    /**
     * Reads the value of an announcement; fields of other names are ignored.
     *
     * @throws StreamException if it is malformed or a field is missing
     */
    public static ModelVersion ofJson(byte[] json) {
        if (json.length > MAX_BYTES) {
            throw new StreamException("an announcement must have at most " + MAX_BYTES + " bytes, got " + json.length);
        }
        try {
            Map<String, Object> fields = Json.object(
                    StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(json)).toString());
            return new ModelVersion(text(fields, "name"),
                    Long.parseLong(String.valueOf(fields.getOrDefault("version", -1))), text(fields, "uri"),
                    text(fields, "sha256"));
        } catch (Json.JsonException | CharacterCodingException | NumberFormatException e) {
            throw new StreamException("an announcement must be a JSON object in UTF-8: " + e.getMessage(), e);
        }
    }

    private static String text(Map<String, Object> fields, String name) {
        return String.valueOf(fields.getOrDefault(name, ""));
    }

    /** Returns for example {@code fraud version 7}. */
    @Override
    public String toString() {
        return name + " version " + version;
    }
}
