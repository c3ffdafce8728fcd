package dev.starling.kafka;

import java.util.LinkedHashMap;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Reads and writes JSON objects whose values are strings or whole numbers: the format of announcements. */
final class FlatJson {
    private static final int MAX_CHARACTERS = 65_536;
    private static final Pattern PAIR = Pattern.compile(
            "\\s*+\"((?:[^\"\\\\\\p{Cntrl}]|\\\\.)*+)\"\\s*+:\\s*+(?:\"((?:[^\"\\\\\\p{Cntrl}]|\\\\.)*+)\"|(\\d{1,18}))"
                    + "\\s*+(,|\\})\\s*+");

    private FlatJson() {
    }

    static Map<String, String> read(String json) {
        String text = json.strip();
        if (text.length() > MAX_CHARACTERS || !text.startsWith("{")) {
            throw new StreamException("must be a JSON object of at most " + MAX_CHARACTERS + " characters");
        }
        Map<String, String> fields = new LinkedHashMap<>();
        Matcher pair = PAIR.matcher(text).region(1, text.length());
        boolean more = true;
        while (more) {
            if (!pair.lookingAt()) {
                throw new StreamException("must be a JSON object of strings and whole numbers; character "
                        + pair.regionStart() + " is not the start of a field");
            }
            String value = pair.group(3) != null ? pair.group(3) : unescaped(pair.group(2));
            if (fields.put(unescaped(pair.group(1)), value) != null) {
                throw new StreamException("has the field \"" + pair.group(1) + "\" twice");
            }
            more = pair.group(4).equals(",");
            pair.region(pair.end(), text.length());
        }
        if (pair.regionStart() != text.length()) {
            throw new StreamException("has text after the object");
        }
        return fields;
    }

    private static String unescaped(String text) {
        StringBuilder plain = new StringBuilder();
        for (int i = 0; i < text.length(); i++) {
            char c = text.charAt(i);
            if (c != '\\') {
                plain.append(c);
                continue;
            }
            char escaped = text.charAt(++i);
            if (escaped == 'u') {
                if (i + 4 >= text.length() || !text.substring(i + 1, i + 5).matches("[0-9a-fA-F]{4}")) {
                    throw new StreamException("must have four hexadecimal digits after \\u");
                }
                plain.append((char) Integer.parseInt(text.substring(i + 1, i + 5), 16));
                i += 4;
            } else {
                int known = "\"\\/bfnrt".indexOf(escaped);
                if (known < 0) {
                    throw new StreamException("has the unknown escape \\" + escaped);
                }
                plain.append("\"\\/\b\f\n\r\t".charAt(known));
            }
        }
        return plain.toString();
    }

    static String quoted(String text) {
        StringBuilder json = new StringBuilder("\"");
        for (char c : text.toCharArray()) {
            if (c == '"' || c == '\\') {
                json.append('\\').append(c);
            } else if (Character.isISOControl(c)) {
                json.append(String.format("\\u%04x", (int) c));
            } else {
                json.append(c);
            }
        }
        return json.append('"').toString();
    }
}
