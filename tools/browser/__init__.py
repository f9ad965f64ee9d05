"""nsqadmin over a cluster with traffic, in Chromium: pictures and screenshots."""
