package dev.starling.nn.checkpoint;

import dev.starling.errors.StarlingException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Reads the subset of JSON that headers, manifests and announcements of models use: objects without duplicate keys,
 * arrays, strings, and whole numbers from 0 to 2⁶³-1. They become {@link Map}, {@link List}, {@link String} and
 * {@link Long}. Writes strings.
 */
public final class Json {
    private static final int MAX_DEPTH = 8;

    private final String text;
    private int at;

    /** What is wrong with a text, and where. */
    public static final class JsonException extends StarlingException {
        private static final long serialVersionUID = 1L;

        JsonException(String message) {
            super(message);
        }
    }

    private Json(String text) {
        this.text = text;
    }

    /**
     * Reads a text that consists of exactly one object.
     *
     * @throws JsonException if it is not such a text, or values are nested more than 8 levels deep
     */
    public static Map<String, Object> object(String text) throws JsonException {
        Json json = new Json(text);
        json.skipSpace();
        Map<String, Object> object = json.object(0);
        json.skipSpace();
        if (json.at != text.length()) {
            throw json.wrong("the end");
        }
        return object;
    }

    private Map<String, Object> object(int depth) throws JsonException {
        Map<String, Object> object = new LinkedHashMap<>();
        expect('{');
        if (next('}')) {
            return object;
        }
        do {
            skipSpace();
            String key = string();
            skipSpace();
            expect(':');
            if (object.put(key, value(depth + 1)) != null) {
                throw new JsonException("the key \"" + key + "\" appears twice");
            }
        } while (next(','));
        expect('}');
        return object;
    }

    private Object value(int depth) throws JsonException {
        if (depth > MAX_DEPTH) {
            throw new JsonException("values are nested more than " + MAX_DEPTH + " levels deep");
        }
        skipSpace();
        return switch (at < text.length() ? text.charAt(at) : ' ') {
            case '{' -> object(depth);
            case '[' -> array(depth);
            case '"' -> string();
            default -> number();
        };
    }

    private List<Object> array(int depth) throws JsonException {
        List<Object> array = new ArrayList<>();
        expect('[');
        if (next(']')) {
            return array;
        }
        do {
            array.add(value(depth + 1));
        } while (next(','));
        expect(']');
        return array;
    }

    private Long number() throws JsonException {
        int from = at;
        while (at < text.length() && text.charAt(at) >= '0' && text.charAt(at) <= '9') {
            at++;
        }
        String digits = text.substring(from, at);
        if (digits.isEmpty() || digits.length() > 1 && digits.charAt(0) == '0') {
            at = from;
            throw wrong("an object, array, string or whole number");
        }
        try {
            return Long.parseLong(digits);
        } catch (NumberFormatException e) {
            throw new JsonException("the number " + digits + " is too large");
        }
    }

    private String string() throws JsonException {
        expect('"');
        StringBuilder string = new StringBuilder();
        while (true) {
            if (at >= text.length() || text.charAt(at) < ' ') {
                throw wrong("the end of a string");
            }
            char c = text.charAt(at++);
            if (c == '"') {
                return string.toString();
            }
            string.append(c == '\\' ? escaped() : c);
        }
    }

    private char escaped() throws JsonException {
        char c = at < text.length() ? text.charAt(at++) : ' ';
        return switch (c) {
            case '"', '\\', '/' -> c;
            case 'b' -> '\b';
            case 'f' -> '\f';
            case 'n' -> '\n';
            case 'r' -> '\r';
            case 't' -> '\t';
            case 'u' -> {
                int code = 0;
                for (int i = 0; i < 4; i++) {
                    int digit = at < text.length() ? Character.digit(text.charAt(at++), 16) : -1;
                    if (digit < 0) {
                        throw wrong("four hexadecimal digits");
                    }
                    code = code << 4 | digit;
                }
                yield (char) code;
            }
            default -> throw wrong("an escaped character");
        };
    }

    private boolean next(char c) {
        skipSpace();
        if (at < text.length() && text.charAt(at) == c) {
            at++;
            return true;
        }
        return false;
    }

    private void expect(char c) throws JsonException {
        if (!next(c)) {
            throw wrong("'" + c + "'");
        }
    }

    private void skipSpace() {
        while (at < text.length() && " \t\r\n".indexOf(text.charAt(at)) >= 0) {
            at++;
        }
    }

    private JsonException wrong(String expected) {
        return new JsonException("expected " + expected + " at character " + at);
    }

    /** Returns a string as a JSON literal, with its quotes. */
    public static String quoted(String string) {
        StringBuilder json = new StringBuilder("\"");
        for (char c : string.toCharArray()) {
            if (c == '"' || c == '\\') {
                json.append('\\').append(c);
            } else if (c < ' ') {
                json.append(String.format("\\u%04x", (int) c));
            } else {
                json.append(c);
            }
        }
        return json.append('"').toString();
    }
}
