package dev.starling.tensor.spi;

/**
 * A library that a backend makes use of, as this machine has it.
 *
 * @param name of the library
 * @param state its version; if it is missing or too old, what that costs
 * @param remedy what to do about it; empty if all is well
 */
public record Library(String name, String state, String remedy) { }
