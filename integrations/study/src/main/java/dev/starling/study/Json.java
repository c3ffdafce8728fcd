package dev.starling.study;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.SerializationFeature;
import dev.starling.nn.data.DataException;
import java.io.IOException;
import java.nio.file.Path;

/** Reads and writes the study's records. */
final class Json {
    private static final ObjectMapper MAPPER = new ObjectMapper().enable(SerializationFeature.INDENT_OUTPUT)
            .disable(DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES);

    private Json() {
    }

    /**
     * Writes a file {@linkplain WholeFile as a whole}.
     *
     * @throws DataException if it cannot be written
     */
    static void write(Path file, Object value) {
        WholeFile.write(file, draft -> MAPPER.writeValue(draft.toFile(), value));
    }

    /**
     * Reads a file.
     *
     * @throws DataException if it cannot be read, or has other content
     */
    static <T> T read(Path file, Class<T> type) {
        try {
            return MAPPER.readValue(file.toFile(), type);
        } catch (IOException e) {
            throw new DataException(file, "JSON of the study (" + type.getSimpleName() + ")", e.getMessage(),
                    "remove the file, or name another", e);
        }
    }

    /** Parses a text; {@code null} if it is no JSON. */
    static JsonNode parse(String text) {
        try {
            return MAPPER.readTree(text);
        } catch (JsonProcessingException e) {
            return null;
        }
    }
}
