package dev.starling.jmh.cluster;

import java.util.List;
import java.util.Map;

/**
 * Settings of a party that are worth trying: the fastest counts.
 *
 * @param name what the table says
 * @param setting what a member is told
 * @param arguments of the program that starts the members
 * @param environment of the members
 */
record Way(String name, String setting, List<String> arguments, Map<String, String> environment) {
    static Way of(String name) {
        return new Way(name, name, List.of(), Map.of());
    }
}
