package dev.starling.distributed.gossip;

import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;

/** How far a run is, as it travels with weights to start with: a line for each note. */
final class Notes {
    static final byte[] NONE = new byte[0];
    static final int MAX_BYTES = 16 << 10;

    private Notes() { }

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
