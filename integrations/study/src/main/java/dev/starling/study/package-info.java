/** The command {@code ./starling study}: one training by every strategy, side by side. */
package dev.starling.study;
