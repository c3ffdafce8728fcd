/** The interface of wires, which other modules may implement. */
package dev.starling.transport.spi;
