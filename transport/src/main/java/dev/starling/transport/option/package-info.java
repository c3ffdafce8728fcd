/** Options of wires, which are read from addresses and system properties. */
package dev.starling.transport.option;
