package dev.starling.tensor.spi;

/**
 * A native library that a backend uses, as found on this machine.
 *
 * @param name the library's name
 * @param state its version; if it is missing or too old, the consequence
 * @param remedy how to repair that; empty if nothing is wrong
 */
public record Library(String name, String state, String remedy) { }
