"""Popping: messages that are hidden until they are acknowledged, in any order or in order."""
