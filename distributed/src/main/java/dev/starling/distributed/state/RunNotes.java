package dev.starling.distributed.state;

import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;

/** Encoding of a run's notes, which travel with initial weights: one line for each note. */
public final class RunNotes {
    public static final byte[] NONE = new byte[0];
    public static final int MAX_BYTES = 16 << 10;

    private RunNotes() { }

    public static byte[] encode(Map<String, String> notes) {
        StringBuilder lines = new StringBuilder();
        notes.forEach((name, value) -> lines.append(name).append('=').append(value).append('\n'));
        return lines.toString().getBytes(StandardCharsets.UTF_8);
    }

    public static Map<String, String> decode(byte[] lines) {
        Map<String, String> notes = new LinkedHashMap<>();
        for (String line : new String(lines, StandardCharsets.UTF_8).split("\n")) {
            int equals = line.indexOf('=');
            if (equals > 0) {
                notes.put(line.substring(0, equals), line.substring(equals + 1));
            }
        }
        return notes;
    }
}
