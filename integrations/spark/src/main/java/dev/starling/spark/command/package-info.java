/** {@code ./starling spark}: training and prediction on Spark from the command line. */
package dev.starling.spark.command;
