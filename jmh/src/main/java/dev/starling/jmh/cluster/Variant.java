package dev.starling.jmh.cluster;

import java.util.List;
import java.util.Map;

/**
 * A variant of an implementation that is worth trying; the fastest counts.
 *
 * @param name the variant's name in tables
 * @param setting the setting that a member gets
 * @param arguments of the program that starts the members
 * @param environment of the members
 */
record Variant(String name, String setting, List<String> arguments, Map<String, String> environment) {
    static Variant of(String name) {
        return new Variant(name, name, List.of(), Map.of());
    }
}
