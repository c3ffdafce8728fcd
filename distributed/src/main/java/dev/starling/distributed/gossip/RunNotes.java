package dev.starling.distributed.gossip;

import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;

/** The run's notes, which travel with initial weights: one line for each note. */
final class RunNotes {
    static final byte[] NONE = new byte[0];
    static final int MAX_BYTES = 16 << 10;

    private RunNotes() { }

    static byte[] encode(Map<String, String> notes) {
        StringBuilder lines = new StringBuilder();
        notes.forEach((name, value) -> lines.append(name).append('=').append(value).append('\n'));
        return lines.toString().getBytes(StandardCharsets.UTF_8);
    }

    static Map<String, String> decode(byte[] lines) {
        Map<String, String> notes = new HashMap<>();
        for (String line : new String(lines, StandardCharsets.UTF_8).split("\n")) {
            int equals = line.indexOf('=');
            if (equals > 0) {
                notes.put(line.substring(0, equals), line.substring(equals + 1));
            }
        }
        return notes;
    }
}
