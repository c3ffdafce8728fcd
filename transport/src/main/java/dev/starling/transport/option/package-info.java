/** The options of a wire: reads and checks those of its configuration. */
package dev.starling.transport.option;
