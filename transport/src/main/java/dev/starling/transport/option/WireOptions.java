package dev.starling.transport.option;

import static dev.starling.transport.TransportException.require;

import dev.starling.transport.TransportException;
import dev.starling.transport.spi.WireConfig;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.agrona.SystemUtil;

/**
 * The options of a wire. A value is checked when it is read.
 *
 * @param values by name
 */
public record WireOptions(Map<String, String> values) {
    /**
     * Returns the options of a configuration.
     *
     * @param transport name of the kind of wire
     * @param known names of its options
     * @throws TransportException if there is an option of another name
     */
    public static WireOptions of(WireConfig config, String transport, Set<String> known) {
        for (String name : config.options().keySet()) {
            require(known.contains(name), "the " + transport + " transport has no option '" + name + "'",
                    known.isEmpty() ? "it has no options at all"
                            : "its options are " + String.join(", ", new TreeSet<>(known)));
        }
        return new WireOptions(config.options());
    }

    /** Returns a number, or a size such as {@code 64k} or {@code 4m}, from 0 to {@code max}. */
    public int size(String name, int defaultValue, int max) {
        String value = values.get(name);
        if (value == null) {
            return defaultValue;
        }
        try {
            long size = SystemUtil.parseSize(name, value);
            require(size >= 0 && size <= max, "0 <= " + name + " <= " + max + " must hold, got " + value, "");
            return (int) size;
        } catch (NumberFormatException | StringIndexOutOfBoundsException e) { // The latter for an empty text.
            throw new TransportException(TransportException.Problem.ARGUMENT, name
                    + " must be a number, such as 65504 or 4m, got '" + value + "'", "", e);
        }
    }

    /** Returns whether an option is {@code true} and not {@code false}. */
    public boolean flag(String name, boolean defaultValue) {
        String value = values.getOrDefault(name, Boolean.toString(defaultValue));
        require(value.equals("true") || value.equals("false"), name + " must be true or false, got " + value, "");
        return Boolean.parseBoolean(value);
    }
}
